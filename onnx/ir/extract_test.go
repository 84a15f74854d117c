package ir

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/internal/testdata"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// tangle is x -> a -> (p, q) -> y with a subgraph that takes a and w from around it, and parts that nothing needs.
func tangle() *onnxpb.ModelProto {
	m := NewModel("g", 8, 17)
	m.Graph = graph(
		node("n1", "Exp", "x", "a"), node("n2", "Split", "a", "p q"), node("dead", "Exp", "u v", "d"),
		with(node("n3", "If", "p", "r"), inner("s", node("", "Mul", "a w", "t"), node("", "Exp", "t", "s"), node("waste", "Exp", "v", "z"))),
		node("n4", "Add", "q r", "y"),
	)
	m.Graph.Input = append(m.Graph.Input, ValueInfo("u", Float32, Fixed(2)), ValueInfo("k", Float32))
	m.Graph.Initializer = append(m.Graph.Initializer, Float32Tensor("v", []int64{2}, []float32{1, 2}), Float32Tensor("k", nil, []float32{1}))
	m.Graph.SparseInitializer = []*onnxpb.SparseTensorProto{{Values: Float32Tensor("sp", []int64{1}, []float32{1}), Indices: Int64Tensor("", 1), Dims: []int64{4}}}
	m.Graph.ValueInfo = []*onnxpb.ValueInfoProto{ValueInfo("a", Float32, Fixed(4)), ValueInfo("d", Float32), ValueInfo("r", Float32)}
	m.Graph.QuantizationAnnotation = []*onnxpb.TensorAnnotation{{TensorName: "d"}, {TensorName: "q"}}
	SetMetadata(m, map[string]string{"key": "value"})
	return m
}

// parts writes the inputs, constants and nodes of a model.
func parts(m *onnxpb.ModelProto) string {
	var in, consts []string
	for _, v := range m.Graph.Input {
		in = append(in, v.Name)
	}
	for _, t := range m.Graph.Initializer {
		consts = append(consts, t.Name)
	}
	for _, t := range m.Graph.SparseInitializer {
		consts = append(consts, t.Values.Name)
	}
	return strings.Join(in, ",") + " | " + strings.Join(consts, ",") + " | " + text(m.Graph.Node)
}

func TestExtract(t *testing.T) {
	const cond = "If(p)->r[Mul(a,w)->t Exp(t)->s Exp(v)->z: s]"
	for _, c := range []struct{ name, inputs, outputs, want string }{
		{"all", "x", "y", "x | w,v | Exp(x)->a Split(a)->p,q " + cond + " Add(q,r)->y"},
		{"head", "x", "a", "x |  | Exp(x)->a"},
		{"tail", "q r", "y", "q,r |  | Add(q,r)->y"},
		{"subgraph takes an input", "p a", "r", "p,a | w,v | " + cond},
		{"input that a needed node gives too", "x p", "r q", "x,p | w,v | Exp(x)->a Split(a)->p_unused,q " + cond},
		{"input that is not needed", "x u", "a", "x,u |  | Exp(x)->a"},
		{"constant as an input", "a p w", "r", "a,p,w | v | " + cond},
		{"constant as an output", "", "w", " | w | "},
		{"default of an input", "", "k", "k | k | "},
		{"several outputs", "a", "q a", "a |  | Split(a)->p,q"},
		{"what was of no use", "u", "d", "u | v | Exp(u,v)->d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := tangle()
			got, err := Extract(m, strings.Fields(c.inputs), strings.Fields(c.outputs))
			must(t, err)
			if parts(got) != c.want {
				t.Errorf("got  %s\nwant %s", parts(got), c.want)
			}
			must(t, Check(got))
			if !proto.Equal(m, tangle()) {
				t.Error("the model changed")
			}
			if Metadata(got)["key"] != "value" || Opset(got) != 17 || got.IrVersion != 8 {
				t.Error("metadata or versions are lost")
			}
			var outs []string
			for _, o := range got.Graph.Output {
				outs = append(outs, o.Name)
			}
			if !slices.Equal(outs, strings.Fields(c.outputs)) {
				t.Errorf("outputs %v", outs)
			}
		})
	}
	got, err := Extract(tangle(), []string{"a", "w", "p"}, []string{"r"})
	must(t, err)
	if !proto.Equal(got.Graph.Input[0], ValueInfo("a", Float32, Fixed(4))) || !proto.Equal(got.Graph.Input[1], ValueInfo("w", Float32)) || got.Graph.Input[2].Type != nil {
		t.Errorf("types of the inputs: %v", got.Graph.Input)
	}
}

func TestExtractRefuses(t *testing.T) {
	for _, c := range []struct{ inputs, outputs, want string }{
		{"", "y", `depend on the graph input "x", over node "n1" (Exp)`},
		{"u", "x", `the output "x" is a graph input`},
		{"x", "nothing", `no value "nothing"`},
		{"x nothing", "y", `no value "nothing"`},
		{"x", "t", `no value "t"`}, // inside a subgraph
		{"x x", "y", `input "x" is named twice`},
		{"x", "y y", `output "y" is named twice`},
		{"x", "", "no outputs"},
	} {
		if _, err := Extract(tangle(), strings.Fields(c.inputs), strings.Fields(c.outputs)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q to %q: error %v", c.inputs, c.outputs, err)
		}
	}
	if _, err := Extract(&onnxpb.ModelProto{}, nil, []string{"y"}); err == nil {
		t.Error("a model without a graph")
	}
}

func TestPrune(t *testing.T) {
	m := tangle()
	Prune(m)
	want := "x,u | w | Exp(x)->a Split(a)->p,q If(p)->r[Mul(a,w)->t Exp(t)->s: s] Add(q,r)->y"
	if got := parts(m); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(m.Graph.ValueInfo) != 2 || len(m.Graph.QuantizationAnnotation) != 1 {
		t.Error("values that are gone are described")
	}
	must(t, Check(m))
	Prune(&onnxpb.ModelProto{})
	Prune(&onnxpb.ModelProto{Graph: &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{node("", "A", "b", "a"), node("", "B", "a", "b")}, Output: []*onnxpb.ValueInfoProto{{Name: "a"}}}})
}

func TestFreeInitializers(t *testing.T) {
	m := NewModel("g", 3, 8)
	m.Graph = graph(node("", "Add", "x w", "y"))
	m.Graph.Input = append(m.Graph.Input, ValueInfo("w", Float32))
	FreeInitializers(m)
	if parts(m) != "x | w | Add(x,w)->y" || m.IrVersion != 4 {
		t.Errorf("%s, version %d", parts(m), m.IrVersion)
	}
	m.IrVersion = 9
	FreeInitializers(m)
	if m.IrVersion != 9 {
		t.Errorf("version %d", m.IrVersion)
	}
	FreeInitializers(&onnxpb.ModelProto{})
}

// Every value of a real model can be made an output, and pruning takes nothing that is needed.
func TestExtractRealModels(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Dir(t), "onnx", "models", "*.onnx"))
	must(t, err)
	for _, path := range files {
		m, err := LoadFile(path)
		must(t, err)
		var inputs []string
		f := newFlow(m.Graph)
		for _, v := range m.Graph.Input {
			if !f.constant[v.Name] {
				inputs = append(inputs, v.Name)
			}
		}
		for i, n := range m.Graph.Node {
			if i%7 == 0 {
				part, err := Extract(m, inputs, n.Output[:1])
				must(t, err)
				must(t, Check(part))
			}
		}
		Prune(m)
		must(t, Check(m))
	}
}
