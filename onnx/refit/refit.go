// Package refit runs a model whose weights change between runs about as fast as one whose weights are built in.
//
// ONNX Runtime rearranges weights that are constants when it loads a model: it folds transposed and flipped kernels and
// lays convolutions out in blocks of channels. Weights that are graph inputs it takes as they are, which makes
// convolutions slower, and loading the model anew after each change costs more than it brings. Here the library
// optimises the model once, with weights whose values are their own numbers. From where these numbers are found in the
// optimised model follows how each of its constants is put together from the weights. These constants become inputs of
// one session, and Update copies changed weights to their places.
package refit

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// Model is a session with the weights that its runs take as inputs behind their own. Runs may be made side by side, but
// not while Update works.
type Model struct {
	session *ort.Session
	params  model.Params
	names   []string
	tensors []*ort.Tensor
	plans   []plan // of the tensors that Update fills
	plain   string
}

// Open loads a model in which the parameters are initializers, under their names. It shares the memory of p; parameters
// that the model does not have are left alone. m is not changed, and the values of its initializers do not matter.
//
// A parameter that is read by anything but convolutions, matrix products and operators that move numbers is an input as
// it is. All are where the provider is not the CPU, or where the library computes with weights when it loads the model:
// see Plain.
func Open(rt *ort.Runtime, m *onnxpb.ModelProto, p model.Params, opt ort.SessionOptions) (*Model, error) {
	if err := ir.Check(m); err != nil {
		return nil, err
	}
	r := &Model{params: p}
	err := r.open(rt, m, opt)
	if err != nil {
		r.Close()
		return nil, err
	}
	r.Update()
	return r, nil
}

func (r *Model) open(rt *ort.Runtime, m *onnxpb.ModelProto, opt ort.SessionOptions) error {
	work, numbered := prepare(m, r.params)
	if provider := rt.Info().Provider; provider != "cpu" {
		r.plain = "the provider is " + provider
	}
	if slices.ContainsFunc(work.Graph.Node, func(n *onnxpb.NodeProto) bool { return len(ir.Subgraphs(n)) > 0 }) {
		r.plain = "the graph has subgraphs, whose constants are not looked at"
	}
	if r.plain == "" && len(numbered) > 0 {
		parts, optimised, err := trace(rt, work, r.params, numbered, opt)
		var refused *untraceable
		switch {
		case errors.As(err, &refused):
			r.plain = refused.reason
		case err != nil:
			return err
		default:
			stayBlocked(optimised, blockSize(optimised, parts))
			return r.load(rt, optimised, parts, opt)
		}
	}
	parts := map[string][]run{}
	for _, i := range numbered {
		parts[r.params[i].Name] = whole(i, len(r.params[i].Data))
	}
	return r.load(rt, work, parts, opt)
}

// load makes the constants of parts, and parameters that are inputs already, the inputs that the weights come in by.
func (r *Model) load(rt *ort.Runtime, m *onnxpb.ModelProto, parts map[string][]run, opt ort.SessionOptions) error {
	for _, v := range m.Graph.Input {
		i := index(r.params, v.GetName())
		if i < 0 {
			continue
		}
		if err := r.share(v.GetName(), i); err != nil {
			return err
		}
	}
	var kept []*onnxpb.TensorProto
	for _, t := range m.Graph.Initializer {
		runs, ok := parts[t.GetName()]
		if !ok {
			kept = append(kept, t)
			continue
		}
		if err := r.weight(t, runs); err != nil {
			return err
		}
		m.Graph.Input = slices.DeleteFunc(m.Graph.Input, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() == t.GetName() })
		m.Graph.Input = append(m.Graph.Input, ir.ValueInfo(t.GetName(), ir.Float32, ir.FixedDims(t.GetDims()...)...))
	}
	m.Graph.Initializer = kept
	data, err := ir.Marshal(m)
	if err != nil {
		return err
	}
	r.session, err = rt.Session(data, opt)
	return err
}

// weight makes the tensor of a constant: over the memory of a parameter that it equals, else over its own.
func (r *Model) weight(t *onnxpb.TensorProto, runs []run) error {
	size := 1
	for _, d := range t.GetDims() {
		size *= int(d)
	}
	if i := int(runs[0].param); slices.Equal(runs, whole(i, size)) && len(r.params[i].Data) == size {
		return r.add(t.GetName(), t.GetDims(), r.params[i].Data)
	}
	data := make([]float32, size)
	r.plans = append(r.plans, plan{data, runs})
	return r.add(t.GetName(), t.GetDims(), data)
}

// share makes the tensor of a parameter that is an input.
func (r *Model) share(name string, i int) error {
	shape := make([]int64, len(r.params[i].Shape))
	for k, d := range r.params[i].Shape {
		shape[k] = int64(d)
	}
	return r.add(name, shape, r.params[i].Data)
}

func (r *Model) add(name string, shape []int64, data []float32) error {
	v, err := ort.Float32(shape, data)
	if err != nil {
		return fmt.Errorf("weight %s: %w", name, err)
	}
	r.names, r.tensors = append(r.names, name), append(r.tensors, v)
	return nil
}

// Session is the session. Bind its inputs in the order of the model's own, then Names.
func (r *Model) Session() *ort.Session { return r.session }

// Names are the inputs that the weights come in by.
func (r *Model) Names() []string { return slices.Clone(r.names) }

// Tensors are the weights, in the order of Names. They belong to the model.
func (r *Model) Tensors() []*ort.Tensor { return slices.Clone(r.tensors) }

// Plain says why the weights are inputs as they are; empty where they are rearranged.
func (r *Model) Plain() string { return r.plain }

// Update makes the next runs use the present values of the parameters.
func (r *Model) Update() {
	for _, p := range r.plans {
		p.fill(r.params)
	}
}

// Close frees the session and the tensors. The parameters stay. Closing twice does nothing.
func (r *Model) Close() error {
	for _, t := range r.tensors {
		t.Close()
	}
	r.tensors, r.names, r.plans = nil, nil, nil
	if r.session == nil {
		return nil
	}
	return r.session.Close()
}

// moving are the operators that only move numbers.
var moving = []string{"Concat", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Shape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"}

// contracting are the operators whose weights the library rearranges.
var contracting = []string{"Conv", "ConvTranspose", "Gemm", "MatMul"}

// prepare copies a model for tracing: parameters that are read by other operators become inputs. It gives the indices
// of those that stay constants.
func prepare(m *onnxpb.ModelProto, p model.Params) (work *onnxpb.ModelProto, numbered []int) {
	work = proto.Clone(m).(*onnxpb.ModelProto)
	free := map[string]bool{}
	for i, t := range p {
		has := slices.ContainsFunc(work.Graph.Initializer, func(c *onnxpb.TensorProto) bool { return c.GetName() == t.Name })
		switch {
		case !has:
		case onlyMoved(work.Graph.Node, t.Name):
			numbered = append(numbered, i)
		default:
			free[t.Name] = true
			work.Graph.Input = append(work.Graph.Input, ir.ValueInfo(t.Name, ir.Float32, dims(t.Shape)...))
		}
	}
	work.Graph.Initializer = slices.DeleteFunc(work.Graph.Initializer, func(c *onnxpb.TensorProto) bool { return free[c.GetName()] })
	return work, numbered
}

func dims(shape []int) []ir.Dim {
	out := make([]ir.Dim, len(shape))
	for i, d := range shape {
		out[i] = ir.Fixed(int64(d))
	}
	return out
}

// onlyMoved says whether a value reaches nothing but contracting operators, by way of moving ones.
func onlyMoved(nodes []*onnxpb.NodeProto, name string) bool {
	reached := map[string]bool{name: true}
	for _, n := range nodes {
		if !slices.ContainsFunc(n.Input, func(in string) bool { return reached[in] }) {
			continue
		}
		switch {
		case !ir.IsStandard(n.GetDomain()):
			return false
		case slices.Contains(contracting, n.OpType):
		case slices.Contains(moving, n.OpType):
			for _, out := range n.Output {
				reached[out] = true
			}
		default:
			return false
		}
	}
	return true
}

func index(p model.Params, name string) int {
	return slices.IndexFunc(p, func(t model.Tensor) bool { return t.Name == name })
}
