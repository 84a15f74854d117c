package gradient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// backendModel is a test's loss and its gradient, in one floating-point type, ready to run. One session gives both, as
// loading it takes longer than the runs.
type backendModel struct {
	elem     int32 // 0: the types of the test itself
	both     *ort.Call
	shapes   [][]int64
	sessions []*ort.Session
}

// errForward marks a model that ONNX Runtime does not take, so that there is nothing to differentiate.
var errForward = errors.New("ONNX Runtime refuses the model")

// errBackward marks a gradient that ONNX Runtime does not take.
var errBackward = errors.New("ONNX Runtime refuses the gradient")

var errNotFinite = errors.New("the loss is not finite")

// open builds and loads the loss and the gradient.
func (b *backendTest) open(r *ort.Runtime, rules Registry, p floatPath, elem int32) (m *backendModel, err error) {
	m = &backendModel{elem: elem}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	var in, wrt []string
	for _, i := range p.inputs {
		name := b.model.Graph.Input[i].Name
		in, wrt = append(in, "in_"+name), append(wrt, name)
		m.shapes = append(m.shapes, b.inputs[i].Dims)
	}
	g, err := b.loss(p, elem)
	if err != nil {
		return m, err
	}
	forward := ir.Clone(g.Model)
	g, outs, err := m.differentiate(g, rules, wrt)
	if err != nil {
		return m, err
	}
	if m.both, err = m.load(r, g, in, append(splitDoubles(g), outs...)); err != nil {
		return m, fmt.Errorf("%w: %w", m.blame(r, forward), err)
	}
	return m, nil
}

// blame says whether ONNX Runtime refuses the loss already.
func (m *backendModel) blame(r *ort.Runtime, forward *onnxpb.ModelProto) error {
	g, err := ir.NewGraph(forward)
	if err != nil {
		return err
	}
	forward.Graph.Output = nil
	if _, err := m.load(r, g, nil, splitDoubles(g)); err != nil {
		return errForward
	}
	return errBackward
}

// differentiate makes the gradients of the loss the graph's outputs, as float32.
func (m *backendModel) differentiate(g *ir.Graph, rules Registry, wrt []string) (_ *ir.Graph, outs []string, err error) {
	grads, err := rules.Gradient(g.Model, theLoss, wrt)
	if err != nil {
		return nil, nil, err
	}
	if g, err = ir.NewGraph(g.Model); err != nil {
		return nil, nil, err
	}
	g.Model.Graph.Output = nil
	for i, name := range grads {
		if name == "" {
			return nil, nil, fmt.Errorf("input %q has no gradient, though it reaches an output", wrt[i])
		}
		out := g.Add("Cast", []string{name}, ir.Int("to", int64(ir.Float32)))
		g.Output(out, ir.Float32, make([]ir.Dim, len(m.shapes[i]))...)
		outs = append(outs, out)
	}
	return g, outs, nil
}

// loads says why ONNX Runtime takes the test neither as it is nor with float32 in place of other floating-point types.
func (b *backendTest) loads(r *ort.Runtime) error {
	m := &backendModel{}
	defer m.close()
	g, err := ir.NewGraph(ir.Clone(b.model))
	if err != nil {
		return err
	}
	if _, err = m.session(r, g.Model); err == nil {
		return nil
	}
	if asType(g.Model.Graph, ir.Float32) == nil {
		if _, again := m.session(r, g.Model); again == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %w", errForward, err)
}

func (m *backendModel) load(r *ort.Runtime, g *ir.Graph, in, out []string) (*ort.Call, error) {
	if err := ir.Check(g.Model); err != nil {
		return nil, err
	}
	s, err := m.session(r, g.Model)
	if err != nil {
		return nil, err
	}
	return s.Bind(in, out)
}

func (m *backendModel) session(r *ort.Runtime, model *onnxpb.ModelProto) (*ort.Session, error) {
	data, err := ir.Marshal(model)
	if err != nil {
		return nil, err
	}
	s, err := r.Session(data, ort.SessionOptions{})
	if err == nil {
		m.sessions = append(m.sessions, s)
	}
	return s, err
}

func (m *backendModel) close() {
	if m == nil {
		return
	}
	for _, s := range m.sessions {
		_ = s.Close()
	}
}

func run(call *ort.Call, shapes [][]int64, x [][]float32, outs int) ([][]float32, error) {
	var in []*ort.Tensor
	for i, values := range x {
		v, err := ort.Float32(shapes[i], values)
		if err != nil {
			return nil, err
		}
		defer v.Close()
		in = append(in, v)
	}
	out := make([]*ort.Tensor, outs)
	if err := call.Run(context.Background(), in, out); err != nil {
		return nil, err
	}
	values := make([][]float32, outs)
	for i, v := range out {
		values[i] = slices.Clone(v.Data())
		v.Close()
	}
	return values, nil
}

// at gives the loss and its gradients.
func (m *backendModel) at(x [][]float32) (loss float64, grads [][]float32, err error) {
	v, err := run(m.both, m.shapes, x, 2+len(x))
	if err != nil {
		return 0, nil, err
	}
	if len(v[0]) != 1 {
		return 0, nil, fmt.Errorf("the loss has %d elements", len(v[0]))
	}
	for i, g := range v[2:] {
		if len(g) != len(x[i]) {
			return 0, nil, fmt.Errorf("gradient %d has %d elements, the input %d", i, len(g), len(x[i]))
		}
	}
	loss = float64(v[0][0]) + float64(v[1][0])
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, nil, errNotFinite
	}
	return loss, v[2:], nil
}

// reference opens the test in double precision if ONNX Runtime has the kernels, else in single, else as it is; the
// first in which the test's inputs give the outputs that the test expects, if there is one.
func (b *backendTest) reference(r *ort.Runtime, rules Registry, p floatPath) (*backendModel, error) {
	var second *backendModel
	var forward, backward error
	elems := []int32{ir.Float64, ir.Float32, 0}
	if b.singleStatistics() {
		elems = elems[1:]
	}
	for _, elem := range elems {
		m, err := b.open(r, rules, p, elem)
		if err == nil {
			var expected bool
			if expected, err = b.reproduced(m, p); expected {
				second.close()
				return m, nil
			}
			if err == nil && second == nil {
				second = m
				continue
			}
			m.close()
		}
		switch {
		case errors.Is(err, errForward):
			forward = err
		case errors.Is(err, errBackward):
			backward = err
		case err != nil:
			second.close()
			return nil, err
		}
	}
	switch {
	case second != nil:
		return second, nil
	case backward != nil:
		return nil, backward
	}
	return nil, forward
}

// singleStatistics says that the test gives the mean and deviation of LayerNormalization, which are in single precision
// for data of any type.
func (b *backendTest) singleStatistics() bool {
	return slices.ContainsFunc(b.model.Graph.Node, func(n *onnxpb.NodeProto) bool {
		return n.OpType == "LayerNormalization" && len(n.Output) > 1
	})
}

// reproduced says whether the test's inputs give the loss of the outputs that it expects. The tests themselves allow a
// relative error of 1e-3; the errors of 16-bit floats are larger.
func (b *backendTest) reproduced(m *backendModel, p floatPath) (bool, error) {
	var x [][]float32
	for _, i := range p.inputs {
		values, err := floatValues(b.inputs[i])
		if err != nil {
			return false, err
		}
		x = append(x, narrow(values))
	}
	got, _, err := m.at(x)
	if errors.Is(err, errNotFinite) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w: %w", errForward, err)
	}
	want := 0.0
	for i, r := range b.weights(p) {
		values, err := floatValues(b.outputs[p.outputs[i]])
		if err != nil {
			return false, err
		}
		for j, v := range values {
			want += v * r[j]
		}
	}
	tol := 1e-3
	if b.uses(elemHalf) || b.uses(elemBrain) {
		tol = 2e-2
	}
	return math.Abs(got-want) <= tol*(1e-2+b.magnitude(p)), nil
}
