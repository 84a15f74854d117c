package ir

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// in sets the domain of a node.
func in(domain string, n *onnxpb.NodeProto) *onnxpb.NodeProto {
	n.Domain = domain
	return n
}

func with(n *onnxpb.NodeProto, attrs ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
	n.Attribute = append(n.Attribute, attrs...)
	return n
}

func ref(name, of string, kind onnxpb.AttributeProto_AttributeType) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, RefAttrName: of, Type: kind}
}

// function is one of domain d against operator set 17.
func function(name, inputs, outputs string, nodes ...*onnxpb.NodeProto) *onnxpb.FunctionProto {
	return &onnxpb.FunctionProto{Name: name, Domain: "d", Input: strings.Fields(inputs), Output: strings.Fields(outputs), Node: nodes,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}}
}

// caller is a model with functions; its graph has the input x, the constant w and the output y.
func caller(nodes []*onnxpb.NodeProto, functions ...*onnxpb.FunctionProto) *onnxpb.ModelProto {
	m := NewModel("g", 8, 17)
	m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: "d", Version: 1})
	m.Graph, m.Functions = graph(nodes...), functions
	return m
}

// text writes nodes as "op(inputs)->outputs{attributes}", subgraphs in brackets.
func text(nodes []*onnxpb.NodeProto) string {
	var out []string
	for _, n := range nodes {
		s := fmt.Sprintf("%s(%s)->%s", n.OpType, strings.Join(n.Input, ","), strings.Join(n.Output, ","))
		for _, a := range n.Attribute {
			if a.G != nil {
				s += fmt.Sprintf("[%s: %s]", text(a.G.Node), a.G.Output[0].Name)
			} else {
				s += fmt.Sprintf("{%s=%d}", a.Name, a.I)
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func inner(out string, nodes ...*onnxpb.NodeProto) *onnxpb.AttributeProto {
	return branch(&onnxpb.GraphProto{Name: "inner", Node: nodes, Output: []*onnxpb.ValueInfoProto{{Name: out}}})
}

func TestInline(t *testing.T) {
	double := function("Double", "a", "b", node("t", "Add", "a a", "t"), node("n", "Identity", "t", "b"))
	alpha := onnxpb.AttributeProto_INT
	for _, c := range []struct {
		name, want string
		model      *onnxpb.ModelProto
	}{
		{"one call", "Add(x,x)->c/t Identity(c/t)->y", caller([]*onnxpb.NodeProto{in("d", node("c", "Double", "x", "y"))}, double)},
		{"two calls", "Add(x,x)->Double/t Identity(Double/t)->h Add(h,h)->Double/t_1 Identity(Double/t_1)->y",
			caller([]*onnxpb.NodeProto{in("d", node("", "Double", "x", "h")), in("d", node("", "Double", "h", "y"))}, double)},
		{"call in a call", "Add(x,x)->c/i/t Identity(c/i/t)->c/h Exp(c/h)->y", caller([]*onnxpb.NodeProto{in("d", node("c", "Outer", "x", "y"))}, double,
			function("Outer", "a", "b", in("d", node("i", "Double", "a", "h")), node("", "Exp", "h", "b")))},
		{"name is taken", "Exp(x)->c/t Add(c/t,c/t)->c/t_1 Identity(c/t_1)->y",
			caller([]*onnxpb.NodeProto{node("c/n", "Exp", "x", "c/t"), in("d", node("c", "Double", "c/t", "y"))}, double)},
		{"attribute given", "Op(x)->y{k=5}", caller([]*onnxpb.NodeProto{with(in("d", node("c", "F", "x", "y")), Int("alpha", 5))},
			function("F", "a", "b", with(node("", "Op", "a", "b"), ref("k", "alpha", alpha))))},
		{"attribute by default", "Op(x)->y{k=7}{j=1}", caller([]*onnxpb.NodeProto{in("d", node("c", "F", "x", "y"))}, func() *onnxpb.FunctionProto {
			f := function("F", "a", "b", with(node("", "Op", "a", "b"), ref("k", "alpha", alpha), Int("j", 1)))
			f.AttributeProto = []*onnxpb.AttributeProto{Int("alpha", 7)}
			return f
		}())},
		{"attribute left out", "Op(x)->y{j=1}", caller([]*onnxpb.NodeProto{in("d", node("c", "F", "x", "y"))},
			function("F", "a", "b", with(node("", "Op", "a", "b"), ref("k", "alpha", alpha), Int("j", 1))))},
		{"attribute handed on", "Op(x)->y{k=5}", caller([]*onnxpb.NodeProto{with(in("d", node("c", "F", "x", "y")), Int("alpha", 5))},
			function("F", "a", "b", with(in("d", node("", "G", "a", "b")), ref("beta", "alpha", alpha))),
			function("G", "a", "b", with(node("", "Op", "a", "b"), ref("k", "beta", alpha))))},
		{"optional input left out", "Clip(x,,w)->y", caller([]*onnxpb.NodeProto{in("d", &onnxpb.NodeProto{OpType: "F", Input: []string{"x", "", "w"}, Output: []string{"y"}})},
			function("F", "a lo hi", "b", node("", "Clip", "a lo hi", "b")))},
		{"trailing input left out", "Clip(x,)->y", caller([]*onnxpb.NodeProto{in("d", node("", "F", "x", "y"))}, function("F", "a lo", "b", node("", "Clip", "a lo", "b")))},
		{"output left out", "Split(x)->y,c/r", caller([]*onnxpb.NodeProto{in("d", node("c", "F", "x", "y"))}, function("F", "a", "p r", node("", "Split", "a", "p r")))},
		{"first output left out", "Split(x)->c/p,y", caller([]*onnxpb.NodeProto{in("d", &onnxpb.NodeProto{Name: "c", OpType: "F", Input: []string{"x"}, Output: []string{"", "y"}})},
			function("F", "a", "p r", node("", "Split", "a", "p r")))},
		{"output is an input", "Identity(x)->y", caller([]*onnxpb.NodeProto{in("d", node("c", "F", "x", "y"))}, function("F", "a", "a"))},
		{"output twice", "Exp(x)->h Identity(h)->y", caller([]*onnxpb.NodeProto{in("d", node("c", "F", "x", "h y"))}, function("F", "a", "b b", node("", "Exp", "a", "b")))},
		{"subgraph in the body", "If(x)->y[Exp(x)->c/t Add(c/t,c/h)->c/u: c/u]", func() *onnxpb.ModelProto {
			sub := inner("u", node("", "Exp", "a", "t"), node("", "Add", "t h", "u"))
			return caller([]*onnxpb.NodeProto{in("d", node("c", "F", "x", "y"))}, function("F", "a", "b", node("", "Relu", "a", "h"), with(node("", "If", "a", "b"), sub)))
		}()},
		{"subgraph with one value twice", "If(x)->y[Identity(x)->c/q: x]", func() *onnxpb.ModelProto {
			sub := inner("p")
			sub.G.Output = append(sub.G.Output, &onnxpb.ValueInfoProto{Name: "q"})
			return caller([]*onnxpb.NodeProto{in("d", node("c", "F", "x x", "y"))}, function("F", "p q", "b", with(node("", "If", "p", "b"), sub)))
		}()},
		{"call in a subgraph", "If(x)->y[Add(x,x)->c/t Identity(c/t)->u: u]", caller([]*onnxpb.NodeProto{with(node("", "If", "x", "y"), inner("u", in("d", node("c", "Double", "x", "u"))))}, double)},
		{"graph as an attribute", "If(x)->y[Add(x,x)->q/t Identity(q/t)->u: u]", caller([]*onnxpb.NodeProto{with(in("d", node("c", "F", "x", "y")), inner("u", in("d", node("q", "Double", "x", "u"))))}, double,
			function("F", "a", "b", with(node("", "If", "a", "b"), ref("then", "body", onnxpb.AttributeProto_GRAPH))))},
		{"function is not called", "Exp(x)->y", caller([]*onnxpb.NodeProto{node("", "Exp", "x", "y")}, double)},
		{"overloads", "Abs(x)->h Exp(h)->y", func() *onnxpb.ModelProto {
			one, two := function("F", "a", "b", node("", "Abs", "a", "b")), function("F", "a", "b", node("", "Exp", "a", "b"))
			two.Overload = "two"
			m := caller([]*onnxpb.NodeProto{in("d", node("", "F", "x", "h")), in("d", node("", "F", "h", "y"))}, one, two)
			m.Graph.Node[1].Overload = "two"
			return m
		}()},
		{"standard domain", "Exp(x)->y", func() *onnxpb.ModelProto {
			f := function("F", "a", "b", node("", "Exp", "a", "b"))
			f.Domain = "ai.onnx"
			m := caller([]*onnxpb.NodeProto{node("", "F", "x", "y")}, f)
			m.OpsetImport = m.OpsetImport[:1]
			return m
		}()},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, Inline(c.model))
			got := text(c.model.Graph.Node)
			if got = strings.ReplaceAll(got, "Relu(x)->c/h ", ""); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			must(t, Check(c.model))
			if len(c.model.Functions) != 0 || len(c.model.OpsetImport) != 1 {
				t.Errorf("%d functions, operator sets %v", len(c.model.Functions), c.model.OpsetImport)
			}
		})
	}
}

func TestInlineDescribesInnerValues(t *testing.T) {
	f := function("F", "a", "b", node("", "Exp", "a", "h"), node("", "Exp", "h", "b"))
	f.ValueInfo = []*onnxpb.ValueInfoProto{ValueInfo("h", Float32, Fixed(3)), ValueInfo("b", Float32)}
	m := caller([]*onnxpb.NodeProto{in("d", node("c", "F", "x", "y"))}, f)
	must(t, Inline(m))
	if v := m.Graph.ValueInfo; len(v) != 1 || !proto.Equal(v[0], ValueInfo("c/h", Float32, Fixed(3))) {
		t.Errorf("got %v", v)
	}
}

func TestInlineMergesOpsets(t *testing.T) {
	imports := func(list ...any) (out []*onnxpb.OperatorSetIdProto) {
		for i := 0; i < len(list); i += 2 {
			out = append(out, &onnxpb.OperatorSetIdProto{Domain: list[i].(string), Version: int64(list[i+1].(int))})
		}
		return out
	}
	for _, c := range []struct {
		name                 string
		model, function, out []*onnxpb.OperatorSetIdProto
		want                 string
	}{
		{"same", imports("", 17, "e", 2), imports("ai.onnx", 17, "e", 2), imports("", 17, "e", 2), ""},
		{"missing", imports("", 17), imports("", 17, "e", 2), imports("", 17, "e", 2), ""},
		{"other version", imports("", 17, "e", 2), imports("", 17, "e", 3), nil, "function d.F is written for version 3 of operator set e, the model for version 2"},
		{"standard", imports("", 17, "e", 2), imports("", 18, "e", 2), nil, "version 18 of operator set ai.onnx, the model for version 17"},
		{"of no operator", imports("", 17, "e", 2, "f", 1), imports("", 17, "e", 2, "f", 2), imports("", 17, "e", 2, "f", 1), ""},
		{"own domain", imports("", 17, "e", 2, "d", 1), imports("", 17, "e", 2, "d", 2), imports("", 17, "e", 2), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := function("F", "a", "b", in("e", node("", "Op", "a", "h")), node("", "Exp", "h", "b"))
			m := caller([]*onnxpb.NodeProto{in("d", node("c", "F", "x", "y"))}, f)
			f.OpsetImport, m.OpsetImport = c.function, c.model
			err := Inline(m)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v", err)
				}
				return
			}
			must(t, err)
			if !slices.EqualFunc(m.OpsetImport, c.out, func(a, b *onnxpb.OperatorSetIdProto) bool { return proto.Equal(a, b) }) {
				t.Errorf("got %v, want %v", m.OpsetImport, c.out)
			}
		})
	}
}

func TestInlineRefuses(t *testing.T) {
	calls := func(nodes ...*onnxpb.NodeProto) []*onnxpb.NodeProto { return nodes }
	self := in("d", node("c", "F", "x", "y"))
	var bomb []*onnxpb.FunctionProto
	for i := range 40 {
		next := fmt.Sprint("F", i+1)
		bomb = append(bomb, function(fmt.Sprint("F", i), "a", "b", in("d", node("", next, "a", "t")), in("d", node("", next, "t", "b"))))
	}
	var tower []*onnxpb.FunctionProto
	for i := range 300 {
		tower = append(tower, function(fmt.Sprint("F", i), "a", "b", in("d", node("", fmt.Sprint("F", i+1), "a", "b"))))
	}
	f := func(nodes ...*onnxpb.NodeProto) *onnxpb.FunctionProto { return function("F", "a", "b", nodes...) }
	for _, c := range []struct {
		name, want string
		model      *onnxpb.ModelProto
	}{
		{"self", "function d.F calls itself: d.F -> d.F", caller(calls(self), f(in("d", node("", "F", "a", "b"))))},
		{"circle", "calls itself: d.", caller(calls(self), f(in("d", node("", "G", "a", "b"))), function("G", "a", "b", in("d", node("", "F", "a", "b"))))},
		{"circle in a subgraph", "calls itself", caller(calls(self), f(with(node("", "If", "a", "b"), inner("u", in("d", node("", "F", "a", "u"))))))},
		{"too many inputs", `node "c" (d.F): 2 inputs and 1 outputs`, caller(calls(in("d", node("c", "F", "x w", "y"))), f(node("", "Exp", "a", "b")))},
		{"too many outputs", "1 inputs and 2 outputs", caller(calls(in("d", node("c", "F", "x", "y z"))), f(node("", "Exp", "a", "b")))},
		{"bad body", `function d.F: node "n" (Exp): its input "q"`, caller(calls(self), f(node("n", "Exp", "q", "b")))},
		{"attribute type", `attribute "k" is of type INT, the function wants FLOAT`, caller(calls(with(in("d", node("c", "F", "x", "y")), Int("k", 1))), f(with(node("", "Op", "a", "b"), ref("j", "k", onnxpb.AttributeProto_FLOAT))))},
		{"two of a name", "two functions are called d.F", caller(calls(self), f(), f())},
		{"passes on what is left out", "which the call leaves out", caller(calls(in("d", node("c", "F", "", "y"))), function("F", "a", "a"))},
		{"subgraph passes on what is left out", "which the call leaves out", caller(calls(in("d", node("c", "F", "", "y"))), f(with(node("", "If", "", "b"), inner("a"))))},
		{"bomb", "too much", caller(calls(in("d", node("c", "F0", "x", "y"))), bomb...)},
		{"tower", "more than 200 deep", caller(calls(in("d", node("c", "F0", "x", "y"))), tower...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := proto.Clone(c.model)
			err := Inline(c.model)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 20000 {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if !proto.Equal(was, c.model) {
				t.Error("the model changed")
			}
		})
	}
}
