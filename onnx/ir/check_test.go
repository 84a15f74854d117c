package ir

import (
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func node(name, op, in, out string) *onnxpb.NodeProto {
	return &onnxpb.NodeProto{Name: name, OpType: op, Input: strings.Fields(in), Output: strings.Fields(out)}
}

func graph(nodes ...*onnxpb.NodeProto) *onnxpb.GraphProto {
	return &onnxpb.GraphProto{
		Name: "g", Node: nodes, Input: []*onnxpb.ValueInfoProto{ValueInfo("x", Float32)},
		Initializer: []*onnxpb.TensorProto{Float32Tensor("w", nil, []float32{1})}, Output: []*onnxpb.ValueInfoProto{ValueInfo("y", Float32)},
	}
}

func branch(g *onnxpb.GraphProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: "body", Type: onnxpb.AttributeProto_GRAPH, G: g}
}

func TestCheck(t *testing.T) {
	with := func(g *onnxpb.GraphProto, change func(*onnxpb.GraphProto)) *onnxpb.GraphProto {
		change(g)
		return g
	}
	inner := func(in, out string) *onnxpb.GraphProto {
		return &onnxpb.GraphProto{Name: "inner", Node: []*onnxpb.NodeProto{node("i", "Relu", in, "r")}, Output: []*onnxpb.ValueInfoProto{{Name: out}}}
	}
	loop := func(sub *onnxpb.GraphProto) *onnxpb.GraphProto {
		n := node("loop", "Loop", "", "y")
		n.Attribute = []*onnxpb.AttributeProto{branch(sub)}
		return graph(node("a", "Relu", "x", "h"), n)
	}
	good := node("a", "Add", "x w", "y")
	for _, c := range []struct {
		name, want string // empty: no error
		graph      *onnxpb.GraphProto
	}{
		{"fine", "", graph(good)},
		{"optional input and output", "", graph(&onnxpb.NodeProto{OpType: "Clip", Input: []string{"x", "", "w"}, Output: []string{"y", ""}})},
		{"default of an input", "", with(graph(good), func(g *onnxpb.GraphProto) { g.Input = append(g.Input, ValueInfo("w", Float32)) })},
		{"subgraph sees outer values", "", loop(inner("h", "r"))},
		{"subgraph passes an outer value on", "", loop(inner("x", "h"))},
		{"no graph", "has no graph", nil},
		{"undefined input", `node "a" (Add): its input "z" is defined nowhere`, graph(node("a", "Add", "x z", "y"))},
		{"wrong order", `node "a" (Relu): its input "h" is given by a later one, node "b" (Exp)`, graph(node("a", "Relu", "h", "y"), node("b", "Exp", "x", "h"))},
		{"cycle", `node "a" (Add): its input "h" depends on the node itself`, graph(node("a", "Add", "x h", "y"), node("b", "Exp", "y", "k"), node("c", "Exp", "k", "h"))},
		{"self", `depends on the node itself`, graph(node("a", "Add", "x y", "y"))},
		{"output twice", `node "b" (Exp): its output "y" is already defined`, graph(node("a", "Exp", "x", "y"), node("b", "Exp", "x", "y"))},
		{"output is an input", `its output "x" is already defined`, graph(node("a", "Exp", "w", "x"))},
		{"node name twice", `node "a" (Exp): another node has its name`, graph(node("a", "Exp", "x", "y"), node("a", "Exp", "x", "z"))},
		{"no operator", `node 0 ("a") has no operator`, graph(node("a", "", "x", "y"))},
		{"output missing", `output "y" is given by no node`, graph(node("a", "Exp", "x", "z"))},
		{"output listed twice", `two outputs are called "y"`, with(graph(good), func(g *onnxpb.GraphProto) { g.Output = append(g.Output, g.Output[0]) })},
		{"input twice", `two inputs are called "x"`, with(graph(good), func(g *onnxpb.GraphProto) { g.Input = append(g.Input, g.Input[0]) })},
		{"input without a name", `an input has no name`, with(graph(good), func(g *onnxpb.GraphProto) { g.Input = append(g.Input, &onnxpb.ValueInfoProto{}) })},
		{"initializer twice", `two initializers are called "w"`, with(graph(good), func(g *onnxpb.GraphProto) { g.Initializer = append(g.Initializer, g.Initializer[0]) })},
		{"initializer without a name", `an initializer has no name`, with(graph(good), func(g *onnxpb.GraphProto) { g.Initializer[0].Name = "" })},
		{"attribute twice", `node "a" (Add): two attributes are called "k"`, with(graph(node("a", "Add", "x w", "y")), func(g *onnxpb.GraphProto) { g.Node[0].Attribute = []*onnxpb.AttributeProto{Int("k", 1), Int("k", 2)} })},
		{"inside a subgraph", `node "loop" (Loop): node "i" (Relu): its input "gone" is defined nowhere`, loop(inner("gone", "r"))},
		{"subgraph values stay inside", `output "y" is given by no node`, with(loop(inner("h", "r")), func(g *onnxpb.GraphProto) { g.Node[1].Output[0] = "q" })},
		{"nameless node", `node of "y" (Add): its input "z"`, graph(node("", "Add", "x z", "y"))},
		{"other domain", `(com.example.Foo)`, with(graph(node("a", "Foo", "z", "y")), func(g *onnxpb.GraphProto) { g.Node[0].Domain = "com.example" })},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewModel("g", 8, 17)
			m.Graph = c.graph
			err := Check(m)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestCheckFunctionsAndOpset(t *testing.T) {
	m := NewModel("g", 8, 17)
	m.Graph = graph(node("a", "Add", "x w", "y"))
	m.Functions = []*onnxpb.FunctionProto{{Name: "f", Domain: "d", Input: []string{"a"}, Output: []string{"b"}, Node: []*onnxpb.NodeProto{node("n", "Exp", "a", "b")}}}
	must(t, Check(m))
	m.Functions[0].Node[0].Input[0] = "x"
	if err := Check(m); err == nil || !strings.Contains(err.Error(), `function d.f: node "n" (Exp)`) {
		t.Errorf("error %v", err)
	}
	m.OpsetImport = nil
	if err := Check(m); err == nil || !strings.Contains(err.Error(), "opset_import") {
		t.Errorf("error %v", err)
	}
}
