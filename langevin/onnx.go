package langevin

import (
	"context"
	"fmt"

	"github.com/jempipe/jempipe/model"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/score"
)

// ONNX is the log density of a classifier whose score graph runs in ONNX Runtime: log p(x) = logsumexp f(x) up to a
// constant, and log p(x, y) = f(x)[y] for a graph with a target input. Log densities are computed in float64 from
// the graph's logits. Several of them may share a session.
type ONNX struct {
	call    *ort.Call
	shape   []int
	classes int
	params  []*ort.Tensor
	target  bool
	batch   int // the only batch size that the graph takes; 0: any
	sizes   map[int]*tensors
}

// tensors are the inputs and outputs of one batch size.
type tensors struct {
	in, out           []*ort.Tensor
	x, target         []float32
	logits, gradients []float32
}

// NewONNX wraps a session over a graph in model space (lower.Score without preprocessing, or lower.ClassScore with target
// set). A graph with a batch size of its own gets batches of that size. shape is that of one state. params are the tensors of a graph with ParamsAsInputs, in order; they stay
// the caller's, and so does the session.
func NewONNX(s *ort.Session, shape []int, classes int, target bool, params []*ort.Tensor, names []string) (*ONNX, error) {
	inputs := []string{"x"}
	if target {
		inputs = append(inputs, "target")
	}
	call, err := s.Bind(append(inputs, names...), []string{"logits", "score"})
	if err != nil {
		return nil, err
	}
	o := &ONNX{call: call, shape: shape, classes: classes, params: params, target: target, sizes: map[int]*tensors{}}
	for _, v := range s.Inputs() {
		if v.Name == "x" && len(v.Shape) > 0 {
			o.batch = int(max(0, v.Shape[0]))
		}
	}
	return o, nil
}

// Gradient implements Density.
func (o *ONNX) Gradient(ctx context.Context, x []float32, classes []int32, logp []float64, grad []float32) error {
	if err := o.checkClasses(classes); err != nil {
		return err
	}
	step := len(logp)
	if o.batch > 0 {
		step = o.batch
	}
	width := len(x) / max(len(logp), 1)
	for at := 0; at < len(logp); at += step {
		to := min(at+step, len(logp))
		var some []int32
		if o.target {
			some = classes[at:to]
		}
		if err := o.run(ctx, step, x[at*width:to*width], some, logp[at:to], grad[at*width:to*width]); err != nil {
			return err
		}
	}
	return nil
}

// checkClasses says whether the chains have classes where the graph has a target, all of them known to the model.
func (o *ONNX) checkClasses(classes []int32) error {
	if (classes != nil) != o.target {
		return fmt.Errorf("langevin: the graph has a target input: %t, the chains have classes: %t", o.target, classes != nil)
	}
	for r, y := range classes {
		if y < 0 || int(y) >= o.classes {
			return fmt.Errorf("langevin: chain %d of a share is of class %d, the model has the classes 0 to %d", r, y, o.classes-1)
		}
	}
	return nil
}

// oneHot fills target [n,K] with ones at the classes [n].
func oneHot(target []float32, classes []int32, k int) {
	clear(target)
	for r, y := range classes {
		target[r*k+int(y)] = 1
	}
}

// run is one call with n rows, of which those behind the states given hold anything.
func (o *ONNX) run(ctx context.Context, n int, x []float32, classes []int32, logp []float64, grad []float32) error {
	t, err := o.tensors(n)
	if err != nil {
		return err
	}
	copy(t.x, x)
	oneHot(t.target, classes, o.classes)
	if err := o.call.Run(ctx, t.in, t.out); err != nil {
		return err
	}
	for r := range logp {
		z := t.logits[r*o.classes : (r+1)*o.classes]
		if o.target {
			logp[r] = float64(z[classes[r]])
		} else {
			logp[r] = score.LogSumExp(z)
		}
	}
	copy(grad, t.gradients)
	return nil
}

func (o *ONNX) tensors(n int) (*tensors, error) {
	if t, ok := o.sizes[n]; ok {
		return t, nil
	}
	t := &tensors{}
	state := []int64{int64(n)}
	for _, d := range o.shape {
		state = append(state, int64(d))
	}
	var a allocation
	t.x = a.float32(&t.in, state...)
	if o.target {
		t.target = a.float32(&t.in, int64(n), int64(o.classes))
	}
	t.logits = a.float32(&t.out, int64(n), int64(o.classes))
	t.gradients = a.float32(&t.out, state...)
	if a.err != nil {
		closeTensors(t.in, t.out)
		return nil, a.err
	}
	t.in = append(t.in, o.params...)
	o.sizes[n] = t
	return t, nil
}

// allocation makes tensors until one fails.
type allocation struct{ err error }

// float32 adds a new tensor to a list and gives its memory.
func (a *allocation) float32(list *[]*ort.Tensor, shape ...int64) []float32 {
	if a.err != nil {
		return nil
	}
	t, err := ort.Float32(shape, nil)
	if err != nil {
		a.err = err
		return nil
	}
	*list = append(*list, t)
	return t.Data()
}

func closeTensors(lists ...[]*ort.Tensor) {
	for _, list := range lists {
		for _, t := range list {
			t.Close()
		}
	}
}

// Close frees the tensors. The session and the parameters stay.
func (o *ONNX) Close() {
	for _, t := range o.sizes {
		closeTensors(t.in[:len(t.in)-len(o.params)], t.out)
	}
	clear(o.sizes)
}

// ParamTensors makes tensors over the parameters' own memory, so that a graph with ParamsAsInputs sees every update
// at once, and lists their names. The caller closes them.
func ParamTensors(ps model.Params) (out []*ort.Tensor, names []string, err error) {
	for _, p := range ps {
		shape := make([]int64, len(p.Shape))
		for i, d := range p.Shape {
			shape[i] = int64(d)
		}
		t, err := ort.Float32(shape, p.Data)
		if err != nil {
			for _, t := range out {
				t.Close()
			}
			return nil, nil, fmt.Errorf("parameter %s: %w", p.Name, err)
		}
		out, names = append(out, t), append(names, p.Name)
	}
	return out, names, nil
}
