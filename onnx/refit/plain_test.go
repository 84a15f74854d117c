package refit

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// product is a model y = x w, after build has had its way with w.
func product(t *testing.T, build func(g *ir.Graph) string) (*onnxpb.ModelProto, model.Params) {
	t.Helper()
	p := model.Params{{Name: "w", Shape: []int{3, 2}, Data: []float32{1, 2, 3, 4, 5, 6}}, {Name: "absent", Shape: []int{1}, Data: []float32{1}}}
	g, err := ir.NewGraph(ir.NewModel("product", 8, 17))
	must(t, err)
	must(t, g.Input("x", ir.Float32, ir.Free("N"), ir.Fixed(3)))
	must(t, g.Initializer(ir.Float32Tensor("w", []int64{3, 2}, p[0].Data)))
	g.AddNamed("y", "MatMul", []string{"x", build(g)}, []string{"y"})
	g.Output("y", ir.Float32, ir.Free("N"), ir.Fixed(2))
	return g.Model, p
}

// TestOtherUsesOfWeights has weights that are computed with, in the graph or by the library when it loads it: they must be
// followed all the same.
func TestOtherUsesOfWeights(t *testing.T) {
	rt := runtimetest.Open(t)
	constant := func(g *ir.Graph, name string, shape []int64, v ...float32) string {
		c, err := g.Constant(ir.Float32Tensor(name, shape, v))
		must(t, err)
		return c
	}
	for name, c := range map[string]struct {
		build func(g *ir.Graph) string
		want  func(w []float32) []float32 // x w for x = [1 10 100]
		plain string
	}{
		"as it is": {func(*ir.Graph) string { return "w" },
			func(w []float32) []float32 { return []float32{w[0] + 10*w[2] + 100*w[4], w[1] + 10*w[3] + 100*w[5]} }, ""},
		"moved": {func(g *ir.Graph) string {
			order, err := g.Constant(ir.Int64Tensor("order", 2, 0, 1))
			must(t, err)
			return g.Add("Gather", []string{"w", order}, ir.Int("axis", 0))
		}, func(w []float32) []float32 { return []float32{w[4] + 10*w[0] + 100*w[2], w[5] + 10*w[1] + 100*w[3]} }, ""},
		"scaled in the graph": {func(g *ir.Graph) string {
			return g.Add("Mul", []string{"w", constant(g, "three", []int64{1}, 3)})
		}, func(w []float32) []float32 {
			return []float32{3 * (w[0] + 10*w[2] + 100*w[4]), 3 * (w[1] + 10*w[3] + 100*w[5])}
		}, ""},
		"computed when loaded": {func(g *ir.Graph) string {
			return g.Add("MatMul", []string{constant(g, "mixed", []int64{3, 3}, 1, 1, 0, 0, 1, 0, 0, 0, 1), "w"})
		}, func(w []float32) []float32 {
			return []float32{w[0] + w[2] + 10*w[2] + 100*w[4], w[1] + w[3] + 10*w[3] + 100*w[5]}
		}, "the library computes constant"},
		"in a subgraph": {func(g *ir.Graph) string {
			yes, err := g.Constant(&onnxpb.TensorProto{Name: "yes", DataType: ir.Bool, RawData: []byte{1}})
			must(t, err)
			return g.Add("If", []string{yes}, branch("then_branch"), branch("else_branch"))
		}, func(w []float32) []float32 { return []float32{w[0] + 10*w[2] + 100*w[4], w[1] + 10*w[3] + 100*w[5]} }, "subgraphs"},
	} {
		t.Run(name, func(t *testing.T) {
			m, p := product(t, c.build)
			live, err := Open(rt, m, p, ort.SessionOptions{Threads: 1})
			must(t, err)
			defer live.Close()
			if (live.Plain() == "") != (c.plain == "") || !strings.Contains(live.Plain(), c.plain) {
				t.Errorf("plain because %q, want %q", live.Plain(), c.plain)
			}
			x, err := ort.Float32([]int64{1, 3}, []float32{1, 10, 100})
			must(t, err)
			defer x.Close()
			call, err := live.Session().Bind(append([]string{"x"}, live.Names()...), []string{"y"})
			must(t, err)
			for k := range 3 {
				for i := range p[0].Data {
					p[0].Data[i] = float32(k*k+1) * float32(i%4-1)
				}
				live.Update()
				out := []*ort.Tensor{nil}
				must(t, call.Run(context.Background(), append([]*ort.Tensor{x}, live.Tensors()...), out))
				if got, want := out[0].Data(), c.want(p[0].Data); !slices.Equal(got, want) {
					t.Errorf("weights %v give %v, want %v", p[0].Data, got, want)
				}
				out[0].Close()
			}
		})
	}
}

// branch is a branch of an If that gives the weights.
func branch(name string) *onnxpb.AttributeProto {
	g := &onnxpb.GraphProto{Name: name,
		Node:   []*onnxpb.NodeProto{{OpType: "Identity", Name: name, Input: []string{"w"}, Output: []string{name + "/w"}}},
		Output: []*onnxpb.ValueInfoProto{ir.ValueInfo(name+"/w", ir.Float32, ir.FixedDims(3, 2)...)}}
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH, G: g}
}

func TestBadModels(t *testing.T) {
	rt := runtimetest.Open(t)
	before := ort.Live()
	m, p := product(t, func(*ir.Graph) string { return "w" })
	m.Graph.Node[0].OpType = "NoSuchOperator"
	if _, err := Open(rt, m, p, ort.SessionOptions{}); err == nil || !strings.Contains(err.Error(), "NoSuchOperator") {
		t.Errorf("got %v, want an error that names the operator", err)
	}
	m.Graph.Node = nil
	if _, err := Open(rt, m, p, ort.SessionOptions{}); err == nil {
		t.Error("no error for a graph whose output nothing makes")
	}
	if now := ort.Live(); now != before {
		t.Errorf("%d native objects are open, %d before", now, before)
	}
}

func TestRuns(t *testing.T) {
	var b builder
	for _, e := range [][3]int{{0, 0, 5}, {1, 0, 8}, {2, 0, 11}, {4, 0, 14}, {5, 1, 0}, {6, 1, 0}, {7, 1, 7}} {
		b.add(e[0], e[1], e[2])
	}
	p := model.Params{{Data: make([]float32, 20)}, {Data: make([]float32, 20)}}
	for i := range 20 {
		p[0].Data[i], p[1].Data[i] = float32(i), float32(100+i)
	}
	data := make([]float32, 8)
	plan{data, b.runs}.fill(p)
	if want := []float32{5, 8, 11, 0, 14, 100, 100, 107}; !slices.Equal(data, want) {
		t.Errorf("%v from %+v, want %v", data, b.runs, want)
	}
	if len(b.runs) != 4 {
		t.Errorf("%d runs %+v, want 4", len(b.runs), b.runs)
	}
}
