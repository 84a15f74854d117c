package gradient

import (
	"fmt"
	"math"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Type is what is known of a value without running the graph. The zero Type knows nothing.
type Type struct {
	Elem   int32 // element type as ONNX numbers it; 0: not known
	Shape  []ir.Dim
	Ranked bool // the number of dimensions is known, and Shape has that length
}

// Static gives the sizes of all dimensions where they are all known.
func (t Type) Static() ([]int64, bool) {
	out := make([]int64, len(t.Shape))
	for i, d := range t.Shape {
		if !d.Set {
			return nil, false
		}
		out[i] = d.Size
	}
	return out, t.Ranked
}

// Axis turns an axis that may count from the end into one that counts from the start; false where it does not exist.
func (t Type) Axis(axis int64) (int, bool) {
	rank := int64(len(t.Shape))
	if axis < 0 {
		axis += rank
	}
	return int(axis), t.Ranked && axis >= 0 && axis < rank
}

// typing holds what is known of the values of a graph. It grows with the graph.
type typing struct {
	rules Registry
	opset int64
	types map[string]Type
	ints  map[string][]int64  // integers that are known: shapes, axes
	dims  map[string][]ir.Dim // the same, with a name for each number that only the running graph knows

	floats map[string][]float32 // values of float32 constants with at most one dimension: scales, factors
}

// Types gives what can be told of the values of the main graph without running it.
func Types(m *onnxpb.ModelProto) map[string]Type { return newTyping(m, Standard()).types }

func newTyping(m *onnxpb.ModelProto, rules Registry) *typing {
	t := &typing{rules: rules, opset: ir.Opset(m), types: map[string]Type{}, ints: map[string][]int64{}, dims: map[string][]ir.Dim{}, floats: map[string][]float32{}}
	for _, v := range m.Graph.GetInput() {
		t.declare(v)
	}
	for _, c := range m.Graph.GetInitializer() {
		t.constant(c.GetName(), c)
	}
	declared := map[string]Type{}
	for _, list := range [][]*onnxpb.ValueInfoProto{m.Graph.GetValueInfo(), m.Graph.GetOutput()} {
		for _, v := range list {
			elem, shape, ranked := ir.TensorType(v)
			declared[v.GetName()] = Type{elem, shape, ranked}
		}
	}
	for _, n := range m.Graph.GetNode() {
		t.node(n, declared)
	}
	return t
}

func (t *typing) declare(v *onnxpb.ValueInfoProto) {
	elem, shape, ranked := ir.TensorType(v)
	t.set(v.GetName(), Type{elem, shape, ranked})
}

func (t *typing) constant(name string, c *onnxpb.TensorProto) {
	t.set(name, tensorType(c))
	if values, err := ir.Int64s(c); err == nil {
		t.setDims(name, ir.FixedDims(values...))
	}
	if len(c.GetDims()) <= 1 {
		if values, err := ir.Float32s(c); err == nil {
			t.floats[name] = values
		}
	}
}

func tensorType(c *onnxpb.TensorProto) Type {
	return Type{c.GetDataType(), ir.FixedDims(c.GetDims()...), true}
}

// set stores a type. A dimension of unknown size gets a name of its own, so that it is known to be equal to itself.
func (t *typing) set(name string, typ Type) {
	shape := make([]ir.Dim, len(typ.Shape))
	for i, d := range typ.Shape {
		if !d.Set && d.Name == "" {
			d = ir.Free(fmt.Sprintf("%s axis %d", name, i))
		}
		shape[i] = d
	}
	typ.Shape = shape
	t.types[name] = typ
}

// node infers the types of a node's outputs. What the file declares fills the gaps.
func (t *typing) node(n *onnxpb.NodeProto, declared map[string]Type) {
	s := &Site{Node: n, typing: t}
	var inferred []Type
	if rule, ok := t.rules.rule(n); ok {
		if rule.Infer != nil {
			inferred = rule.Infer(s)
		} else if len(ir.Subgraphs(n)) == 0 { // which decide what If and Loop give
			inferred = []Type{{Elem: s.Type(0).Elem}}
		}
	}
	for i, name := range n.GetOutput() {
		if name == "" {
			continue
		}
		typ := Type{}
		if i < len(inferred) {
			typ = inferred[i]
		}
		t.set(name, merge(typ, declared[name]))
	}
	t.fold(s)
	if n.GetOpType() == "Constant" && len(n.GetOutput()) == 1 {
		if values, ok := constantFloats(n); ok {
			t.floats[n.GetOutput()[0]] = values
		}
	}
}

func merge(a, b Type) Type {
	if a.Elem == 0 {
		a.Elem = b.Elem
	}
	if !a.Ranked {
		return Type{a.Elem, b.Shape, b.Ranked}
	}
	if b.Ranked && len(a.Shape) == len(b.Shape) {
		shape := make([]ir.Dim, len(a.Shape))
		for i, d := range a.Shape {
			if !d.Set && (d.Name == "" || b.Shape[i].Set) {
				d = b.Shape[i]
			}
			shape[i] = d
		}
		a.Shape = shape
	}
	return a
}

// Site is a node and what is known of its inputs.
type Site struct {
	Node *onnxpb.NodeProto
	*typing
}

// In is the name of an input; empty where it is left out.
func (s *Site) In(i int) string {
	if i < len(s.Node.Input) {
		return s.Node.Input[i]
	}
	return ""
}

// Out is the name of an output; empty where it is left out.
func (s *Site) Out(i int) string {
	if i < len(s.Node.Output) {
		return s.Node.Output[i]
	}
	return ""
}

// Type is what is known of an input.
func (s *Site) Type(i int) Type { return s.types[s.In(i)] }

// TypeOf is what is known of any value.
func (s *Site) TypeOf(name string) Type { return s.types[name] }

// Ints gives a list that an operator takes as an attribute in old operator sets and as an input in new ones.
// given is false where the node has neither, known is false where the input is computed by the graph.
func (s *Site) Ints(attr string, input int) (values []int64, given, known bool) {
	if a := ir.Attr(s.Node, attr); a != nil {
		return a.GetInts(), true, true
	}
	name := s.In(input)
	if name == "" {
		return nil, false, true
	}
	values, known = s.ints[name]
	return values, true, known
}

// withElem is the type with another element type and the same shape.
func (t Type) withElem(elem int32) Type {
	t.Elem = elem
	return t
}

func inferSame(s *Site) []Type { return []Type{s.Type(0)} }

func inferCompare(s *Site) []Type {
	out := inferBroadcast(s)
	out[0].Elem = ir.Bool
	return out
}

func inferBroadcast(s *Site) []Type {
	out := s.Type(0)
	for i := 1; i < len(s.Node.Input); i++ {
		out = broadcast(out, s.Type(i))
	}
	return []Type{out}
}

func inferWhere(s *Site) []Type {
	out := broadcast(broadcast(s.Type(1), s.Type(2)), s.Type(0))
	return []Type{out.withElem(s.Type(1).Elem)}
}

// broadcast is the shape of an element-wise operation on two values, by the rules of NumPy.
func broadcast(a, b Type) Type {
	out := Type{Elem: a.Elem, Ranked: a.Ranked && b.Ranked}
	if out.Elem == 0 {
		out.Elem = b.Elem
	}
	if !out.Ranked {
		return out
	}
	rank := max(len(a.Shape), len(b.Shape))
	out.Shape = make([]ir.Dim, rank)
	for i := range out.Shape {
		out.Shape[i] = broadcastDim(fromEnd(a.Shape, rank-i), fromEnd(b.Shape, rank-i))
	}
	return out
}

// fromEnd is the k-th dimension from the end, or 1 beyond the first.
func fromEnd(shape []ir.Dim, k int) ir.Dim {
	if k > len(shape) {
		return ir.Fixed(1)
	}
	return shape[len(shape)-k]
}

func broadcastDim(a, b ir.Dim) ir.Dim {
	switch {
	case a.Is(1):
		return b
	case b.Is(1), a.Same(b):
		return a
	case a.Set:
		return a
	case b.Set:
		return b
	}
	return ir.Dim{}
}

// product multiplies sizes; false on overflow or where a size is not known.
func product(dims []ir.Dim) (int64, bool) {
	n := int64(1)
	for _, d := range dims {
		if !d.Set || d.Size < 0 || d.Size > 0 && n > math.MaxInt64/d.Size {
			return 0, false
		}
		n *= d.Size
	}
	return n, true
}
