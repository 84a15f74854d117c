package gradient

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestScatterElements(t *testing.T) {
	index := []*onnxpb.TensorProto{indices("index", []int64{2, 2}, 2, 0, 1, -1), indices("again", []int64{2, 2}, 2, 2, 1, 1)}
	shapes := [][]int64{{2, 3}, {2, 2}}
	attrs := func(axis int64, reduction string) []*onnxpb.AttributeProto {
		out := []*onnxpb.AttributeProto{ir.Int("axis", axis)}
		if reduction != "" {
			out = append(out, ir.String("reduction", reduction))
		}
		return out
	}
	for _, axis := range []int64{1, -1} {
		checkJacobian(t,
			jacobianCase{op: "ScatterElements", shapes: shapes, tensors: index, args: []string{"x0", "index", "x1"}, attrs: attrs(axis, "")},
			jacobianCase{op: "ScatterElements", name: "none", shapes: shapes, tensors: index, args: []string{"x0", "index", "x1"}, attrs: attrs(axis, "none")},
			jacobianCase{op: "ScatterElements", name: "add", shapes: shapes, tensors: index, args: []string{"x0", "again", "x1"}, attrs: attrs(axis, "add")},
			jacobianCase{op: "ScatterElements", name: "opset 11", opset: 11, shapes: shapes, tensors: index, args: []string{"x0", "index", "x1"}, attrs: attrs(axis, ""), static: true},
		)
	}
	checkJacobian(t,
		jacobianCase{op: "ScatterElements", name: "first axis", shapes: [][]int64{{3, 2}, {2, 2}}, tensors: index, args: []string{"x0", "index", "x1"}},
		jacobianCase{op: "Scatter", opset: 9, shapes: shapes, tensors: []*onnxpb.TensorProto{indices("index", []int64{2, 2}, 2, 0, 1, 0)}, args: []string{"x0", "index", "x1"}, attrs: attrs(1, ""), wrt: []int{0}, static: true},
	)
}

func TestScatterND(t *testing.T) {
	index := []*onnxpb.TensorProto{indices("elements", []int64{2, 2}, 0, 1, 1, -1), indices("rows", []int64{2, 1}, 2, 0), indices("again", []int64{3, 1}, 1, 1, 1)}
	add := []*onnxpb.AttributeProto{ir.String("reduction", "add")}
	checkJacobian(t,
		jacobianCase{op: "ScatterND", shapes: [][]int64{{3, 2}, {2}}, tensors: index, args: []string{"x0", "elements", "x1"}},
		jacobianCase{op: "ScatterND", shapes: [][]int64{{3, 2}, {2, 2}}, tensors: index, args: []string{"x0", "rows", "x1"}},
		jacobianCase{op: "ScatterND", name: "opset 11", opset: 11, shapes: [][]int64{{3, 2}, {2, 2}}, tensors: index, args: []string{"x0", "rows", "x1"}, static: true},
		jacobianCase{op: "ScatterND", name: "add", shapes: [][]int64{{3, 2}, {3, 2}}, tensors: index, args: []string{"x0", "again", "x1"}, attrs: add},
	)
}

// apart draws values that differ by more than the steps of finite differences, in an order that changes.
func apart() func(*rand.Rand) float64 {
	next := 0
	return func(rng *rand.Rand) float64 {
		next++
		return float64(next*5%13)/4 + 0.1*rng.Float64()
	}
}

func TestScatterExtremes(t *testing.T) {
	index := []*onnxpb.TensorProto{indices("again", []int64{2, 2}, 2, 2, 1, -1), indices("rows", []int64{3, 1}, 1, 1, 0)}
	for _, reduction := range []string{"max", "min"} {
		attrs := []*onnxpb.AttributeProto{ir.String("reduction", reduction)}
		checkJacobian(t,
			jacobianCase{op: "ScatterElements", name: reduction, opset: 18, shapes: [][]int64{{2, 3}, {2, 2}}, tensors: index, args: []string{"x0", "again", "x1"}, attrs: append(attrs, ir.Int("axis", 1)), draw: apart()},
			jacobianCase{op: "ScatterND", name: reduction, opset: 18, shapes: [][]int64{{3, 2}, {3, 2}}, tensors: index, args: []string{"x0", "rows", "x1"}, attrs: attrs, draw: apart()},
		)
	}
	mul := []*onnxpb.AttributeProto{ir.String("reduction", "mul")}
	checkJacobian(t,
		jacobianCase{op: "ScatterElements", name: "mul", shapes: [][]int64{{2, 3}, {2, 2}}, tensors: index, args: []string{"x0", "again", "x1"}, attrs: append(mul, ir.Int("axis", 1)), wrt: []int{0}},
		jacobianCase{op: "ScatterND", name: "mul", shapes: [][]int64{{3, 2}, {3, 2}}, tensors: index, args: []string{"x0", "rows", "x1"}, attrs: mul, wrt: []int{0}},
	)
}

func TestScatterProductOfUpdates(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(1)))
		must(t, g.Initializer(ir.Int64Tensor("i", 1)))
		must(t, g.Initializer(ir.Float32Tensor("data", []int64{3}, []float32{2, 3, 4})))
		g.AddNamed("node", "ScatterElements", []string{"data", "i", "x"}, []string{"y"}, ir.String("reduction", "mul"))
	})
	if _, err := Gradient(m, "y", []string{"x"}); err == nil || !strings.Contains(err.Error(), "with respect to its updates") {
		t.Errorf("error %v", err)
	}
}
