package ir

import (
	"slices"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func newGraph(t *testing.T, irVersion int64) *Graph {
	t.Helper()
	g, err := NewGraph(NewModel("g", irVersion, 17))
	must(t, err)
	must(t, g.Input("x", Float32, Free("N")))
	return g
}

func TestNamesStayUnique(t *testing.T) {
	g := newGraph(t, 8)
	a, b := g.Add("Relu", []string{"x"}), g.Add("Relu", []string{"x"})
	former := g.Scope("grad/")
	c := g.Add("Relu", []string{a})
	if former != "" || a != "Relu" || b != "Relu_1" || c != "grad/Relu" {
		t.Errorf("got %q, %q, %q, %q", former, a, b, c)
	}
	if n := g.AddNamed("Relu", "Exp", []string{"x"}, []string{"e"}); n.Name != "Relu_2" {
		t.Errorf("second node of the name is called %q", n.Name)
	}
	again, err := NewGraph(g.Model)
	must(t, err)
	if name := again.Add("Relu", []string{"x"}); name != "Relu_3" {
		t.Errorf("got %q", name)
	}
	if g.Input("x", Float32) == nil || g.Input("e", Float32) == nil || g.Initializer(Int64Tensor("x", 1)) == nil {
		t.Error("a name is given twice")
	}
	must(t, Check(g.Model))
}

func TestEqualConstantsAreStoredOnce(t *testing.T) {
	for _, version := range []int64{3, 8} {
		g := newGraph(t, version)
		constant := func(c *onnxpb.TensorProto) string {
			name, err := g.Constant(c)
			must(t, err)
			return name
		}
		a, b := constant(Int64Tensor("one", 1)), constant(Int64Tensor("uno", 1))
		c, d := constant(Int64Tensor("one", 2)), constant(Float32Tensor("f", []int64{1}, []float32{1}))
		e := constant(Float32Tensor("f", nil, []float32{1})) // another shape
		if a != b || a != "one" || c != "one_1" || d != "f" || e != "f_1" {
			t.Errorf("got %q, %q, %q, %q, %q", a, b, c, d, e)
		}
		inits, nodes := len(g.Model.Graph.Initializer), len(g.Model.Graph.Node)
		if version == 8 && (inits != 4 || nodes != 0) || version == 3 && (inits != 0 || nodes != 4) {
			t.Errorf("version %d: %d initializers and %d nodes", version, inits, nodes)
		}
		must(t, Check(g.Model))
	}
}

// A renamed value is renamed in subgraphs too, except where they have a value of that name of their own.
func TestRename(t *testing.T) {
	g := newGraph(t, 8)
	h := g.Add("Relu", []string{"x"})
	free := &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{node("", "Exp", h, "r")}, Output: []*onnxpb.ValueInfoProto{{Name: h}}}
	own := &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{node("", "Exp", "x", h)}, Output: []*onnxpb.ValueInfoProto{{Name: h}}}
	n := g.AddNamed("if", "If", []string{h}, []string{"y"}, branch(free))
	n.Attribute = append(n.Attribute, &onnxpb.AttributeProto{Name: "else", G: own})
	g.Output(h, Float32)
	must(t, g.Rename(h, "score"))
	if n.Input[0] != "score" || free.Node[0].Input[0] != "score" || free.Output[0].Name != "score" || g.Model.Graph.Output[0].Name != "score" {
		t.Error("a use keeps the old name")
	}
	if own.Node[0].Output[0] != h || own.Output[0].Name != h {
		t.Error("a value of the subgraph itself was renamed")
	}
	must(t, Check(g.Model))
	if g.Rename("score", "y") == nil || g.Rename("x", "z") == nil || g.Rename("nothing", "z") == nil {
		t.Error("a rename that cannot work is accepted")
	}
}

// A name that is made free is free everywhere, also in subgraphs with a value of that name of their own.
func TestVacate(t *testing.T) {
	g := newGraph(t, 8)
	must(t, g.Initializer(Float32Tensor("w", nil, []float32{1})))
	g.AddNamed("score", "Add", []string{"x", "w"}, []string{"score"})
	own := &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{node("", "Exp", "score", "w")}, Output: []*onnxpb.ValueInfoProto{{Name: "w"}}}
	n := g.AddNamed("if", "If", []string{"score"}, []string{"y"}, branch(own))
	for _, name := range []string{"w", "score", "x", "none"} {
		if to := g.Vacate(name); (to == name) != (name == "none") || g.Has(name) {
			t.Errorf("%s became %s", name, to)
		}
	}
	if add := g.Model.Graph.Node[0]; add.Input[0] != "x_1" || add.Input[1] != "w_1" || add.Output[0] != "score_1" || n.Input[0] != "score_1" {
		t.Errorf("nodes %v, %v", add, n)
	}
	if own.Node[0].Input[0] != "score_1" || own.Node[0].Output[0] != "w_1" || own.Output[0].Name != "w_1" {
		t.Errorf("branch %v", own)
	}
	if again := g.AddNamed("score", "Relu", []string{"x_1"}, []string{"score"}); again.Name == "score" {
		t.Error("two nodes have one name")
	}
	must(t, Check(g.Model))
}

func TestMetadata(t *testing.T) {
	m := NewModel("g", 8, 17)
	SetMetadata(m, map[string]string{"b": "1", "c": "2"})
	SetMetadata(m, map[string]string{"a": "3", "b": "4"})
	var got []string
	for _, e := range m.MetadataProps {
		got = append(got, e.Key+e.Value)
	}
	if !slices.Equal(got, []string{"a3", "b4", "c2"}) {
		t.Errorf("got %v", got)
	}
	if v := Metadata(m); v["b"] != "4" || len(v) != 3 {
		t.Errorf("got %v", v)
	}
}

func TestAttributes(t *testing.T) {
	n := &onnxpb.NodeProto{Attribute: []*onnxpb.AttributeProto{Int("i", 3), Ints("l", 1, 2), Float("f", 0.5), String("s", "text")}}
	if AttrInt(n, "i", 0) != 3 || AttrInt(n, "none", 7) != 7 || !slices.Equal(AttrInts(n, "l"), []int64{1, 2}) || AttrInts(n, "none") != nil {
		t.Error("integers")
	}
	if AttrFloat(n, "f", 0) != 0.5 || AttrFloat(n, "none", 2) != 2 || AttrString(n, "s", "") != "text" || AttrString(n, "none", "d") != "d" {
		t.Error("floats and strings")
	}
}
