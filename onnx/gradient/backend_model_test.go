package gradient

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// parameters are float inputs that say what to compute rather than take part in it: sizes, scales, probabilities.
// They are constants in the tests, and keep their type where a model is converted to another one.
var parameters = map[string][]int{
	"Dropout": {1, 2}, "OneHot": {0, 1}, "Range": {0, 1, 2}, "Resize": {1, 2}, "Upsample": {1},
}

// floatPath is what of a test's graph matters to gradients: the float inputs and outputs that a path of differentiable
// nodes joins, and the operators of which no gradient is known on paths between float inputs and outputs.
type floatPath struct {
	inputs, outputs []int
	blocked         []string
}

// trace finds the paths between float inputs and float outputs, walking as Gradient does.
func (b *backendTest) trace(rules Registry) (floatPath, error) {
	g := b.model.Graph
	from, to := b.floats(g.Input, b.inputs), b.floats(g.Output, b.outputs)
	b.keepFinite(to)
	for name, i := range from {
		if b.isParameter(g.Input[i].Name) {
			delete(from, name)
		}
	}
	p := floatPath{}
	if len(from) == 0 || len(to) == 0 {
		return p, nil
	}
	names := slices.Sorted(maps.Keys(from))
	w, err := newWalk(b.model, rules, names[0], names)
	if err != nil {
		return p, err
	}
	w.depends, _ = w.forward(w.wrt)
	var reached map[string]bool
	reached, p.blocked = w.backward(to)
	for _, name := range names {
		if reached[name] {
			p.inputs = append(p.inputs, from[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		if w.depends[name] {
			p.outputs = append(p.outputs, to[name])
		}
	}
	slices.Sort(p.inputs)
	slices.Sort(p.outputs)
	return p, nil
}

// backward marks the values that gradients of the outputs come by, and lists the operators that they cannot pass.
func (w *walk) backward(outputs map[string]int) (reached map[string]bool, blocked []string) {
	reached = map[string]bool{}
	for name := range outputs {
		reached[name] = true
	}
	for i := len(w.nodes) - 1; i >= 0; i-- {
		n := w.nodes[i]
		rule, _ := w.rules.rule(n)
		if rule.Stops || !w.onPath(n, func(out string) bool { return reached[out] }) {
			continue
		}
		for _, in := range uses(n) {
			reached[in] = reached[in] || w.depends[in]
		}
		if rule.Gradient == nil {
			blocked = append(blocked, operatorName(n))
		}
	}
	slices.Sort(blocked)
	return reached, slices.Compact(blocked)
}

// floats gives the positions of the values that are float tensors with at least one element.
func (b *backendTest) floats(values []*onnxpb.ValueInfoProto, tensors []*onnxpb.TensorProto) map[string]int {
	out := map[string]int{}
	for i, v := range values {
		if t := tensors[i]; t != nil && ir.IsFloat(t.DataType) && count(t.Dims) > 0 {
			out[v.Name] = i
		}
	}
	return out
}

// keepFinite drops outputs with infinities, such as masked scores, where others are finite.
func (b *backendTest) keepFinite(outputs map[string]int) {
	finite := map[string]bool{}
	for name, i := range outputs {
		values, err := floatValues(b.outputs[i])
		finite[name] = err == nil && !slices.ContainsFunc(values, func(v float64) bool { return math.IsInf(v, 0) || math.IsNaN(v) })
	}
	if !slices.Contains(slices.Collect(maps.Values(finite)), true) {
		return
	}
	for name, ok := range finite {
		if !ok {
			delete(outputs, name)
		}
	}
}

func (b *backendTest) isParameter(name string) bool {
	return slices.ContainsFunc(b.model.Graph.Node, func(n *onnxpb.NodeProto) bool {
		return slices.ContainsFunc(parameters[n.OpType], func(i int) bool { return i < len(n.Input) && n.Input[i] == name })
	})
}

func operatorName(n *onnxpb.NodeProto) string {
	if ir.IsStandard(n.GetDomain()) {
		return n.GetOpType()
	}
	return n.GetDomain() + "." + n.GetOpType()
}

// operators lists all operators of the test's graph, those in subgraphs included.
func (b *backendTest) operators() []string {
	seen := map[string]bool{}
	var visit func(g *onnxpb.GraphProto)
	visit = func(g *onnxpb.GraphProto) {
		for _, n := range g.Node {
			seen[operatorName(n)] = true
			for _, sub := range ir.Subgraphs(n) {
				visit(sub)
			}
		}
	}
	visit(b.model.Graph)
	return slices.Sorted(maps.Keys(seen))
}

// loss builds the model with a float32 graph input in_NAME in place of each input of the path, all other inputs
// constant, and the sum of the path's outputs times random weights as the value "the loss", in double precision.
// elem is the floating-point type of the whole model; 0 leaves its types as they are.
func (b *backendTest) loss(p floatPath, elem int32) (*ir.Graph, error) {
	m := ir.Clone(b.model)
	m.IrVersion = max(m.IrVersion, 8) // before 4, constants had to be inputs
	if elem != 0 {
		if err := asType(m.Graph, elem); err != nil {
			return nil, err
		}
	}
	nodes, values := m.Graph.Node, m.Graph.Input
	m.Graph.Node, m.Graph.Input = nil, nil
	g, err := ir.NewGraph(m)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if slices.Contains(p.inputs, i) {
			if err := g.Input("in_"+v.Name, ir.Float32, ir.FixedDims(b.inputs[i].Dims...)...); err != nil {
				return nil, err
			}
			to := v.GetType().GetTensorType().GetElemType()
			g.AddNamed("cast_"+v.Name, "Cast", []string{"in_" + v.Name}, []string{v.Name}, ir.Int("to", int64(to)))
			continue
		}
		t := proto.Clone(b.inputs[i]).(*onnxpb.TensorProto)
		t.Name = v.Name
		if elem != 0 && !b.isParameter(v.Name) {
			if t, err = converted(t, elem); err != nil {
				return nil, err
			}
		}
		m.Graph.Initializer = append(m.Graph.Initializer, t)
	}
	m.Graph.Node = append(m.Graph.Node, nodes...)
	return b.weighted(m, p)
}

const theLoss = "the loss"

func (b *backendTest) weighted(m *onnxpb.ModelProto, p floatPath) (*ir.Graph, error) {
	g, err := ir.NewGraph(m)
	if err != nil {
		return nil, err
	}
	var terms []string
	for i, r := range b.weights(p) {
		name := m.Graph.Output[p.outputs[i]].Name
		wide := g.Add("Cast", []string{name}, ir.Int("to", int64(ir.Float64)))
		weights := ir.Float64Tensor(g.Unique("weights of "+name), b.outputs[p.outputs[i]].Dims, r)
		m.Graph.Initializer = append(m.Graph.Initializer, weights)
		terms = append(terms, g.Add("ReduceSum", []string{g.Add("Mul", []string{wide, weights.Name})}, ir.Int("keepdims", 0)))
	}
	g.AddNamed(theLoss, "Sum", terms, []string{theLoss})
	return g, nil
}

// weights are random numbers in ±[0.5, 1.5] for each element of each output of the path.
func (b *backendTest) weights(p floatPath) [][]float64 {
	var out [][]float64
	for _, i := range p.outputs {
		rng := keyed.New(1, b.name+" weights").At(uint64(i), 0)
		r := make([]float64, count(b.outputs[i].Dims))
		for j := range r {
			r[j] = 0.5 + rng.Float64()
			if rng.IntN(2) == 0 {
				r[j] = -r[j]
			}
		}
		out = append(out, r)
	}
	return out
}

// asType gives all floats of a graph another type: values, constants, and what nodes are told to produce.
func asType(g *onnxpb.GraphProto, elem int32) error {
	for _, list := range [][]*onnxpb.ValueInfoProto{g.Input, g.Output, g.ValueInfo} {
		for _, v := range list {
			convertType(v.GetType(), elem)
		}
	}
	for i, t := range g.Initializer {
		c, err := converted(t, elem)
		if err != nil {
			return err
		}
		g.Initializer[i] = c
	}
	for _, n := range g.Node {
		for _, a := range n.Attribute {
			if err := convertAttr(a, elem); err != nil {
				return fmt.Errorf("%s: %w", ir.Describe(n), err)
			}
		}
		if n.OpType == "GroupNormalization" { // says in which type to compute, by default float32
			n.Attribute = append(n.Attribute, ir.Int("stash_type", int64(elem)))
		}
		for _, sub := range ir.Subgraphs(n) {
			if err := asType(sub, elem); err != nil {
				return err
			}
		}
	}
	return nil
}

func convertAttr(a *onnxpb.AttributeProto, elem int32) (err error) {
	switch {
	case a.GetT() != nil:
		a.T, err = converted(a.T, elem)
	case a.Name == "value_float" || a.Name == "value_floats":
		list, shape := a.Floats, []int64{int64(len(a.Floats))}
		if a.Name == "value_float" {
			list, shape = []float32{a.F}, nil
		}
		a.Name, a.Type, a.F, a.Floats = "value", onnxpb.AttributeProto_TENSOR, 0, nil
		a.T = floatTensor("", elem, shape, widen(list))
	case (a.Name == "to" || a.Name == "dtype" || a.Name == "output_datatype") && ir.IsFloat(int32(a.I)):
		a.I = int64(elem)
	}
	return err
}

func convertType(t *onnxpb.TypeProto, elem int32) {
	if tensor := t.GetTensorType(); tensor != nil && ir.IsFloat(tensor.ElemType) {
		tensor.ElemType = elem
	}
	if s := t.GetSequenceType(); s != nil {
		convertType(s.ElemType, elem)
	}
	if o := t.GetOptionalType(); o != nil {
		convertType(o.ElemType, elem)
	}
}

func converted(t *onnxpb.TensorProto, elem int32) (*onnxpb.TensorProto, error) {
	if !ir.IsFloat(t.GetDataType()) {
		return t, nil
	}
	values, err := floatValues(t)
	if err != nil {
		return nil, err
	}
	return floatTensor(t.GetName(), elem, t.GetDims(), values), nil
}

// splitDoubles makes the loss the sum of two float32 outputs, which hold it to about 48 bits.
func splitDoubles(g *ir.Graph) []string {
	single, double := ir.Int("to", int64(ir.Float32)), ir.Int("to", int64(ir.Float64))
	high := g.Add("Cast", []string{theLoss}, single)
	rest := g.Add("Sub", []string{theLoss, g.Add("Cast", []string{high}, double)})
	low := g.Add("Cast", []string{rest}, single)
	g.Output(high, ir.Float32)
	g.Output(low, ir.Float32)
	return []string{high, low}
}
