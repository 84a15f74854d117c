package intake

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/onnx/convert"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
)

// Attach gives a copy of the model with the output score taken from a gradient graph that others made: an ONNX file
// with one input, which takes what the model takes in model space (or raw samples), and an output with as many values.
// Whether it is the gradient is for the self-test to say.
func (c *Classifier) Attach(path string, raw bool) (*onnxpb.ModelProto, error) {
	other, err := Read(path)
	if err != nil {
		return nil, err
	}
	m := clone(c.Model)
	bad := func(err error) (*onnxpb.ModelProto, error) { return nil, fault.New(fault.Data, path, "%v", err) }
	if len(other.Graph.Input) != 1 {
		return bad(fmt.Errorf("a gradient graph has one input, this one has %d", len(other.Graph.Input)))
	}
	to := max(ir.Opset(m), ir.Opset(other))
	for _, each := range []*onnxpb.ModelProto{m, other} {
		if err := convert.Raise(each, to); err != nil {
			return bad(err)
		}
	}
	space, shape := c.space(raw)
	out, err := gradientOutput(other, shape)
	if err != nil {
		return bad(err)
	}
	if err := fitsInput(other.Graph.Input[0], shape, c.Batch); err != nil {
		return bad(err)
	}
	return c.join(m, other, space, out, shape)
}

// gradientOutput chooses the output that may be the gradient: the only one, or the one that is called so.
func gradientOutput(m *onnxpb.ModelProto, shape []int) (string, error) {
	var names, called []string
	for _, v := range m.Graph.Output {
		if elem, dims, ranked := ir.TensorType(v); elem == ir.Float32 && (!ranked || len(dims) > 0 && (len(dims) == 1 || agreesWithSize(dims[1:], size(shape)))) {
			names = append(names, v.GetName())
			low := strings.ToLower(v.GetName())
			if strings.Contains(low, "score") || strings.Contains(low, "grad") {
				called = append(called, v.GetName())
			}
		}
	}
	if len(called) == 1 {
		return called[0], nil
	}
	if len(names) != 1 {
		return "", fmt.Errorf("which output is the gradient cannot be told: %d of its float32 outputs have %d values for a sample; call one score", len(names), size(shape))
	}
	return names[0], nil
}

// agreesWithSize says whether dimensions can hold so many values.
func agreesWithSize(dims []ir.Dim, n int) bool {
	fixed, ok := fixedShape(dims)
	return !ok || size(fixed) == n
}

func fitsInput(v *onnxpb.ValueInfoProto, shape []int, batch int) error {
	elem, dims, ranked := ir.TensorType(v)
	switch {
	case elem != ir.Float32:
		return fmt.Errorf("its input %s is %s, want FLOAT", v.GetName(), ir.ElemName(elem))
	case ranked && (len(dims) != len(shape)+1 || !agrees(dims[1:], shape)):
		return fmt.Errorf("its input %s takes samples of shape %s, the model takes %v", v.GetName(), dimsText(dims[min(1, len(dims)):]), shape)
	case ranked && dims[0].Set && int(dims[0].Size) != batch:
		return fmt.Errorf("its input %s takes batches of %d only: export it with a free batch axis", v.GetName(), dims[0].Size)
	}
	return nil
}

// join puts the nodes of a graph behind those of a model, with its input fed from a value of the model.
func (c *Classifier) join(m, other *onnxpb.ModelProto, space, out string, shape []int) (*onnxpb.ModelProto, error) {
	out, err := apart(m, other, space, out)
	if err != nil {
		return nil, err
	}
	m.Graph.Node = append(m.Graph.Node, other.Graph.Node...)
	m.Graph.Initializer = append(m.Graph.Initializer, other.Graph.Initializer...)
	m.Graph.SparseInitializer = append(m.Graph.SparseInitializer, other.Graph.SparseInitializer...)
	for _, o := range other.OpsetImport {
		if !slices.ContainsFunc(m.OpsetImport, func(have *onnxpb.OperatorSetIdProto) bool {
			return have.GetDomain() == o.GetDomain() || ir.IsStandard(have.GetDomain()) && ir.IsStandard(o.GetDomain())
		}) {
			m.OpsetImport = append(m.OpsetImport, o)
		}
	}
	m.IrVersion = max(m.IrVersion, other.IrVersion)
	g, err := ir.NewGraph(m)
	if err != nil {
		return nil, err
	}
	to, err := g.Constant(ir.Int64Tensor("score_shape", append([]int64{-1}, sizes(shape)...)...))
	if err != nil {
		return nil, err
	}
	g.AddNamed(lower.OutputScore, "Reshape", []string{out, to}, []string{lower.OutputScore})
	g.Output(lower.OutputScore, ir.Float32, c.rows(shape...)...)
	ir.Prune(m)
	return m, ir.Check(m)
}

// apart gives values and nodes of a graph names that a model does not have, and lets its input be a value of the model.
// It says what the value out is called then.
func apart(m, other *onnxpb.ModelProto, space, out string) (string, error) {
	og, err := ir.NewGraph(other)
	if err != nil {
		return "", err
	}
	g, err := ir.NewGraph(m)
	if err != nil {
		return "", err
	}
	in := other.Graph.Input[0].GetName()
	other.Graph.Input = nil
	for _, name := range og.Names() {
		if name != in && (g.Has(name) || name == lower.OutputScore) {
			to := og.Vacate(name)
			for g.Has(to) {
				to = og.Vacate(to)
			}
			if name == out {
				out = to
			}
		}
	}
	og.Redirect(in, space)
	if out == in { // the gradient of a model whose log density is half the square of its input
		out = space
	}
	nodes := map[string]bool{lower.OutputScore: true}
	for _, n := range m.Graph.Node {
		nodes[n.GetName()] = true
	}
	for _, n := range other.Graph.Node {
		for n.Name != "" && nodes[n.Name] {
			n.Name += "_"
		}
		nodes[n.Name] = true
	}
	return out, nil
}
