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
	if (classes != nil) != o.target {
		return fmt.Errorf("langevin: the graph has a target input: %t, the chains have classes: %t", o.target, classes != nil)
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

// run is one call with n rows, of which those behind the states given hold anything.
func (o *ONNX) run(ctx context.Context, n int, x []float32, classes []int32, logp []float64, grad []float32) error {
	t, err := o.tensors(n)
	if err != nil {
		return err
	}
	copy(t.x, x)
	if o.target {
		clear(t.target)
		for r, y := range classes {
			t.target[r*o.classes+int(y)] = 1
		}
	}
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
	alloc := func(list *[]*ort.Tensor, shape ...int64) ([]float32, error) {
		v, err := ort.Float32(shape, nil)
		if err != nil {
			return nil, err
		}
		*list = append(*list, v)
		return v.Data(), nil
	}
	state := []int64{int64(n)}
	for _, d := range o.shape {
		state = append(state, int64(d))
	}
	var err [4]error
	t.x, err[0] = alloc(&t.in, state...)
	if o.target {
		t.target, err[1] = alloc(&t.in, int64(n), int64(o.classes))
	}
	t.in = append(t.in, o.params...)
	t.logits, err[2] = alloc(&t.out, int64(n), int64(o.classes))
	t.gradients, err[3] = alloc(&t.out, state...)
	for _, e := range err {
		if e != nil {
			t.close(len(o.params))
			return nil, e
		}
	}
	o.sizes[n] = t
	return t, nil
}

// close frees all tensors but the shared parameters at the end of the inputs.
func (t *tensors) close(params int) {
	own := t.in[:len(t.in)-params]
	for _, v := range append(append([]*ort.Tensor{}, own...), t.out...) {
		v.Close()
	}
}

// Close frees the tensors. The session and the parameters stay.
func (o *ONNX) Close() {
	for _, t := range o.sizes {
		t.close(len(o.params))
	}
	o.sizes = map[int]*tensors{}
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
