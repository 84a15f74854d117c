package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// unranked makes a value one of which not even the number of dimensions is known before the graph runs.
func unranked(t *testing.T, g *ir.Graph, name string) string {
	t.Helper()
	out := unrank(g, name)
	if newTyping(g.Model, Standard()).types[out].Ranked {
		t.Fatal("the number of dimensions is known")
	}
	return out
}

func unrank(g *ir.Graph, name string) string {
	if len(g.Model.Graph.Initializer) == 0 || g.Model.Graph.Initializer[0].Name != "plus_one" {
		g.Model.Graph.Initializer = append([]*onnxpb.TensorProto{ir.Int64Tensor("plus_one", 1)}, g.Model.Graph.Initializer...)
	}
	minus := g.Add("Neg", []string{"plus_one"})
	shape := g.Add("Reshape", []string{computed(g, g.Add("Shape", []string{name})), minus})
	return g.Add("Reshape", []string{name, shape})
}

// wantShape compares what is inferred of a value; "" stands for a size without a name in the file.
func wantShape(t *testing.T, g *ir.Graph, name string, want ...any) {
	t.Helper()
	got := newTyping(g.Model, Standard()).types[name]
	if !got.Ranked || len(got.Shape) != len(want) {
		t.Fatalf("%s: shape %s (ranked: %v), want %v", name, dims(got.Shape), got.Ranked, want)
	}
	for i, w := range want {
		ok := true
		switch w := w.(type) {
		case int:
			ok = got.Shape[i].Is(int64(w))
		case string:
			ok = !got.Shape[i].Set && (w == "" || got.Shape[i].Name == w)
		}
		if !ok {
			t.Errorf("%s: axis %d is %+v, want %v", name, i, got.Shape[i], w)
		}
	}
}

func TestComputedShapes(t *testing.T) {
	build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Free("N"), ir.Fixed(3), ir.Fixed(4), ir.Fixed(5)))
		must(t, g.Initializer(indices("first", nil, 0)))
		for name, values := range map[string][]int64{"zero": {0}, "two": {2}, "rest": {-1}, "image": {8, 10}, "last": {-1, -2}, "sixty": {60}} {
			must(t, g.Initializer(ir.Int64Tensor(name, values...)))
		}
		concat := func(parts ...string) string { return g.Add("Concat", parts, ir.Int("axis", 0)) }
		shape := g.Add("Shape", []string{"x"})
		batch := g.Add("Unsqueeze", []string{g.Add("Gather", []string{shape, "first"}), "zero"})
		g.AddNamed("flat", "Reshape", []string{"x", concat(batch, "rest")}, []string{"flat"})
		wantShape(t, g, "flat", "N", 60)
		g.AddNamed("pairs", "Reshape", []string{"x", concat("rest", "two", batch)}, []string{"pairs"})
		wantShape(t, g, "pairs", 30, 2, "N")
		head := g.Add("Slice", []string{shape, "zero", "two"})
		g.AddNamed("scaled", "Resize", []string{"x", "", "", concat(head, "image")}, []string{"scaled"})
		wantShape(t, g, "scaled", "N", 3, 8, 10)
		g.AddNamed("filled", "ConstantOfShape", []string{g.Add("Gather", []string{shape, "last"})}, []string{"filled"})
		wantShape(t, g, "filled", 5, 4)
		g.AddNamed("wide", "Expand", []string{"flat", concat("two", batch, "sixty")}, []string{"wide"})
		wantShape(t, g, "wide", 2, "N", 60)
		spatial := g.Add("Shape", []string{"x"}, ir.Int("start", -2))
		g.AddNamed("plane", "ConstantOfShape", []string{spatial}, []string{"plane"})
		wantShape(t, g, "plane", 4, 5)
	})
}

// The gradient of a resize to sizes computed from the shape, which has a free batch axis.
func TestResizeToComputedSizes(t *testing.T) {
	for _, mode := range []string{"nearest", "linear"} {
		checkJacobian(t, jacobianCase{op: "Resize", name: mode + " computed from the shape", shapes: [][]int64{{2, 1, 3, 2}}, dims: [][]int64{{-1, 1, 3, 2}}, static: true, single: true, build: func(g *ir.Graph, args []string) {
			must(t, g.Initializer(ir.Int64Tensor("zero", 0)))
			must(t, g.Initializer(ir.Int64Tensor("two", 2)))
			must(t, g.Initializer(ir.Int64Tensor("image", 5, 4)))
			head := g.Add("Slice", []string{g.Add("Shape", args), "zero", "two"})
			g.AddNamed("the_node", "Resize", []string{args[0], "", "", g.Add("Concat", []string{head, "image"}, ir.Int("axis", 0))}, []string{"y"}, ir.String("mode", mode))
		}})
	}
}
