package ir

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// maker makes models that are mostly sound and now and then are not: names collide, functions call each other, graphs
// nest, values come out of nowhere.
type maker struct {
	*rand.Rand
	wild   bool // every name may be anything
	serial int
}

func (r *maker) pick(list []string) string {
	if len(list) == 0 || r.wild && r.IntN(12) == 0 {
		return []string{"", "x", "w", "y", "a", "v1", "F/v1"}[r.IntN(7)]
	}
	return list[r.IntN(len(list))]
}

// fresh is a new name, or where names are wild now and then one that was there before.
func (r *maker) fresh() string {
	if r.wild && r.IntN(12) == 0 {
		return r.pick(nil)
	}
	r.serial++
	return fmt.Sprint("v", r.serial)
}

// nodes makes nodes that read known values. attrs are names of attributes of a function they stand in.
func (r *maker) nodes(known []string, depth, functions int, attrs bool) ([]*onnxpb.NodeProto, []string) {
	var out []*onnxpb.NodeProto
	for range r.IntN(4) + 1 {
		n := &onnxpb.NodeProto{OpType: "Op"}
		if r.IntN(3) == 0 {
			n.Name = r.fresh()
		}
		for range r.IntN(3) {
			n.Input = append(n.Input, r.pick(known))
		}
		if functions > 0 && r.IntN(2) == 0 {
			n.OpType, n.Domain = fmt.Sprint("F", r.IntN(functions)), "d"
		}
		if depth > 0 && r.IntN(3) == 0 {
			n.Attribute = append(n.Attribute, branch(r.graph(known, depth-1, functions, attrs)))
		}
		if attrs && r.IntN(3) == 0 {
			n.Attribute = append(n.Attribute, ref([]string{"k", "body", "then"}[r.IntN(3)], []string{"k", "body"}[r.IntN(2)], 0))
		}
		if r.IntN(4) == 0 {
			n.Attribute = append(n.Attribute, Int("k", 1))
		}
		for range r.IntN(3) {
			o := r.fresh()
			n.Output = append(n.Output, o)
			known = append(known, o)
		}
		out = append(out, n)
	}
	return out, known
}

func (r *maker) graph(known []string, depth, functions int, attrs bool) *onnxpb.GraphProto {
	g := &onnxpb.GraphProto{Name: "g"}
	for range r.IntN(2) {
		v := r.fresh()
		g.Input, known = append(g.Input, ValueInfo(v, Float32)), append(known, v)
	}
	for range r.IntN(2) {
		v := r.fresh()
		g.Initializer, known = append(g.Initializer, Float32Tensor(v, nil, []float32{1})), append(known, v)
	}
	g.Node, known = r.nodes(known, depth, functions, attrs)
	for range r.IntN(3) {
		g.Output = append(g.Output, ValueInfo(r.pick(known), Float32))
	}
	g.ValueInfo = append(g.ValueInfo, ValueInfo(r.pick(known), Float32))
	return g
}

func (r *maker) model() *onnxpb.ModelProto {
	m := NewModel("g", 8, 17)
	functions := r.IntN(4)
	for i := range functions {
		f := &onnxpb.FunctionProto{Domain: "d", Name: fmt.Sprint("F", i), OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}}
		var known []string
		for range r.IntN(3) {
			v := r.fresh()
			f.Input, known = append(f.Input, v), append(known, v)
		}
		callable := i
		if r.wild && r.IntN(8) == 0 {
			callable = functions
		}
		f.Node, known = r.nodes(known, 2, callable, true)
		for range r.IntN(3) {
			f.Output = append(f.Output, r.pick(known))
		}
		if r.IntN(3) == 0 {
			f.AttributeProto = []*onnxpb.AttributeProto{Int("k", 3), branch(r.graph(nil, 1, callable, false))}
		}
		m.Functions = append(m.Functions, f)
	}
	m.Graph = r.graph([]string{"x", "w"}, 3, functions, false)
	m.Graph.Input = append(m.Graph.Input, ValueInfo("x", Float32))
	m.Graph.Initializer = append(m.Graph.Initializer, Float32Tensor("w", nil, []float32{1}))
	return m
}

func TestRandomModels(t *testing.T) {
	sound, inlined := 0, 0
	var seed uint64
	var m *onnxpb.ModelProto
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d: %v", seed, m)
		}
	})
	for seed = range uint64(4000) {
		r := &maker{Rand: rand.New(rand.NewPCG(seed, 0)), wild: seed%3 == 0}
		m = r.model()
		data, err := Marshal(m)
		must(t, err)
		exercise(t, data)
		if Check(m) == nil {
			sound++
			if len(m.Functions) > 0 && Inline(m) == nil {
				inlined++
			}
		}
	}
	if sound < 1000 || inlined < 100 {
		t.Errorf("only %d models are sound, and functions of %d are put in", sound, inlined)
	}
}
