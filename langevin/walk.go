package langevin

import (
	"context"

	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// ONNXWalk is an ONNX density that makes several updates in one call of a Langevin graph (lower.AddWalk with a noise of
// width 1 around the score graph).
type ONNXWalk struct {
	*ONNX
	call  *ort.Call
	sizes map[walkSize]*walkTensors
}

// walkSize is a number of states and of updates.
type walkSize struct{ n, steps int }

type walkTensors struct {
	in, out                  []*ort.Tensor
	x0, noise, steps, target []float32
	x, energy                []float32
}

// NewONNXWalk adds a session over a Langevin graph to a density over the score graph of the same model, with the same
// parameters as inputs, whose names are given. Both sessions and the parameters stay the caller's; closing the walk
// closes the density.
func NewONNXWalk(o *ONNX, s *ort.Session, names []string) (*ONNXWalk, error) {
	inputs := []string{"x0", "noise", "step_size"}
	if o.target {
		inputs = append(inputs, "target")
	}
	call, err := s.Bind(append(inputs, names...), []string{"x", "energy"})
	if err != nil {
		return nil, err
	}
	return &ONNXWalk{ONNX: o, call: call, sizes: map[walkSize]*walkTensors{}}, nil
}

// Walk implements Walker.
func (o *ONNXWalk) Walk(ctx context.Context, x []float32, classes []int32, noise, steps []float32, logp []float64) error {
	if err := o.checkClasses(classes); err != nil {
		return err
	}
	t, err := o.walkTensors(walkSize{len(logp) / len(steps), len(steps)})
	if err != nil {
		return err
	}
	copy(t.x0, x)
	copy(t.noise, noise)
	copy(t.steps, steps)
	oneHot(t.target, classes, o.classes)
	if err := o.call.Run(ctx, t.in, t.out); err != nil {
		return err
	}
	copy(x, t.x)
	for i, e := range t.energy {
		logp[i] = -float64(e)
	}
	return nil
}

func (o *ONNXWalk) walkTensors(size walkSize) (*walkTensors, error) {
	if t, ok := o.sizes[size]; ok {
		return t, nil
	}
	t := &walkTensors{}
	n, steps := int64(size.n), int64(size.steps)
	state := []int64{n}
	for _, d := range o.shape {
		state = append(state, int64(d))
	}
	var a allocation
	t.x0 = a.float32(&t.in, state...)
	t.noise = a.float32(&t.in, append([]int64{steps}, state...)...)
	t.steps = a.float32(&t.in, steps)
	if o.target {
		t.target = a.float32(&t.in, n, int64(o.classes))
	}
	t.x = a.float32(&t.out, state...)
	t.energy = a.float32(&t.out, steps, n)
	if a.err != nil {
		closeTensors(t.in, t.out)
		return nil, a.err
	}
	t.in = append(t.in, o.params...)
	o.sizes[size] = t
	return t, nil
}

// Close frees the tensors of both graphs. The sessions and the parameters stay.
func (o *ONNXWalk) Close() {
	for _, t := range o.sizes {
		closeTensors(t.in[:len(t.in)-len(o.params)], t.out)
	}
	clear(o.sizes)
	o.ONNX.Close()
}
