package gradient

import (
	"math"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestClip(t *testing.T) {
	number := func(name string, v float64) *onnxpb.TensorProto { return ir.Float64Tensor(name, nil, []float64{v}) }
	bounds := []*onnxpb.TensorProto{number("low", -1), number("high", 0.5), number("zero", 0), number("infinite", math.Inf(1)), number("lowest", -math.MaxFloat32)}
	shapes := [][]int64{{2, 6}}
	draw := within(-2, 2, -1, 0, 0.5)
	for _, args := range [][]string{
		{"x0"}, {"x0", "low", "high"}, {"x0", "low"}, {"x0", "", "high"}, {"x0", "zero"}, {"x0", "zero", "high"}, {"x0", "low", "infinite"}, {"x0", "lowest", "high"}, {"x0", "high", "low"},
	} {
		checkJacobian(t, jacobianCase{op: "Clip", name: strings.Join(args, " "), shapes: shapes, draw: draw, args: args, tensors: bounds})
	}
	numbers := []*onnxpb.AttributeProto{ir.Float("min", -1), ir.Float("max", 0.5)}
	checkJacobian(t,
		jacobianCase{op: "Clip", name: "scalar", shapes: [][]int64{{}}, draw: draw, args: []string{"x0", "low", "high"}, tensors: bounds, opset: 13},
		jacobianCase{op: "Clip", name: "opset 12", shapes: shapes, draw: draw, args: []string{"x0", "low", "high"}, tensors: bounds, opset: 12, static: true},
		jacobianCase{op: "Clip", name: "opset 7", shapes: shapes, draw: draw, attrs: numbers, opset: 7, static: true, single: true},
		jacobianCase{op: "Clip", name: "opset 10, below", shapes: shapes, draw: draw, attrs: numbers[:1], opset: 10, static: true, single: true},
		jacobianCase{op: "Clip", name: "opset 10, above", shapes: shapes, draw: draw, attrs: numbers[1:], opset: 10, static: true, single: true},
		jacobianCase{op: "Clip", name: "opset 10, none", shapes: shapes, draw: draw, opset: 10, static: true, single: true},
		jacobianCase{op: "Clip", name: "single", shapes: shapes, draw: draw, args: []string{"x0", "zero"}, tensors: []*onnxpb.TensorProto{ir.Float32Tensor("zero", nil, []float32{0})}, single: true},
	)
}

func TestClipBounds(t *testing.T) {
	order := func(args ...string) func(g *ir.Graph, _ []string) {
		return func(g *ir.Graph, _ []string) { g.AddNamed("the_node", "Clip", args, []string{"y"}) }
	}
	shapes := [][]int64{{2, 6}, {}, {}}
	for range 3 { // with the bounds in either order
		checkJacobian(t, jacobianCase{op: "Clip", name: "computed", shapes: shapes, draw: differing()})
	}
	checkJacobian(t,
		jacobianCase{op: "Clip", name: "x", shapes: shapes, draw: differing(), wrt: []int{0}},
		jacobianCase{op: "Clip", name: "min", shapes: shapes[:2], draw: differing(), build: order("x0", "x1")},
		jacobianCase{op: "Clip", name: "max", shapes: shapes[:2], draw: differing(), build: order("x0", "", "x1")},
	)
}

// A bound that is so far off that it does not matter has a gradient where that is asked for.
func TestClipBoundFarOff(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
		must(t, g.Initializer(ir.Float32Tensor("low", nil, []float32{-math.MaxFloat32})))
		g.AddNamed("y", "Clip", []string{"x", "low"}, []string{"y"})
	})
	got := gradients(t, m, "y", []string{"x", "low"}, []float32{3, -5})
	equal(t, got[0], 1, 1)
	equal(t, got[1], 0)
}
