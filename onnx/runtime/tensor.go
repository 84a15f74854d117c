package runtime

import (
	goruntime "runtime"
	"slices"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/jempipe/jempipe/internal/fault"
)

// Tensor is a float32 array in Go memory that ONNX Runtime reads and writes in place. One tensor can be given to any
// number of runs, one after the other; only inputs may be shared by runs at the same time.
type Tensor struct {
	shape []int64
	data  []float32
	n     *native
}

// native is what of a tensor must be given back.
type native struct {
	lifetime
	value *ort.Tensor[float32] // nil for a scalar, which gets a value of its own in each run
	pin   goruntime.Pinner
}

// Float32 makes a tensor over data, row-major and exactly as long as the shape says, or over new zeros where data is
// nil. No dimensions make a scalar of one element; a dimension may be 0. The data is not copied, so what is written to
// it later is what the next run reads. A runtime must be open. Close the tensor after its last run.
func Float32(shape []int64, data []float32) (*Tensor, error) {
	size, err := elements(shape)
	if err != nil {
		return nil, err
	}
	if data == nil {
		data = make([]float32, size)
	}
	if len(data) != size {
		return nil, fault.New(fault.Internal, "", "%d values for a tensor of shape %v, wanted %d", len(data), shape, size)
	}
	if err := join(); err != nil {
		return nil, err
	}
	t := &Tensor{shape: slices.Clone(shape), data: data, n: &native{}}
	if size > 0 {
		t.n.pin.Pin(&data[0])
	}
	if len(shape) > 0 {
		if t.n.value, err = ort.NewTensor(ort.Shape(t.shape), data); err != nil {
			t.n.pin.Unpin()
			leave()
			return nil, fault.New(fault.Internal, "", "no tensor of shape %v: %s", shape, oneLine(err))
		}
	}
	return t.guard(), nil
}

// adopt takes over a tensor that ONNX Runtime has allocated for an output.
func adopt(value *ort.Tensor[float32]) (*Tensor, error) {
	if err := join(); err != nil {
		return nil, err
	}
	t := &Tensor{shape: value.GetShape(), data: value.GetData(), n: &native{value: value}}
	if len(t.data) > 0 {
		t.n.pin.Pin(&t.data[0])
	}
	return t.guard(), nil
}

func (t *Tensor) guard() *Tensor {
	n := t.n
	n.free = func() {
		if n.value != nil {
			_ = n.value.Destroy()
		}
		n.pin.Unpin()
		leave()
	}
	// A pinner that is collected while it pins ends the process; a forgotten Close must not.
	goruntime.AddCleanup(t, (*native).close, n)
	return t
}

// Data is the tensor's memory, row-major: write inputs to it, read outputs from it.
func (t *Tensor) Data() []float32 { return t.data }

// Shape is the tensor's shape, empty for a scalar.
func (t *Tensor) Shape() []int64 { return slices.Clone(t.shape) }

// Close gives the native part back, after the runs that still use the tensor. Closing twice, or nil, does nothing.
func (t *Tensor) Close() {
	if t != nil {
		t.n.close()
	}
}

// elements is the number of values of a shape.
func elements(shape []int64) (int, error) {
	const most = 1 << 40
	size := int64(1)
	for _, d := range shape {
		if d < 0 || d > 0 && size > most/d {
			return 0, fault.New(fault.Internal, "", "a tensor cannot have the shape %v", shape)
		}
		size *= d
	}
	return int(size), nil
}
