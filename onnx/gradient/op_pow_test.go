package gradient

import (
	"fmt"
	"math"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// exponent is a constant exponent of some type behind the base.
func exponent(k jacobianCase, e *onnxpb.TensorProto) jacobianCase {
	k.op, k.args, k.tensors = "Pow", []string{"x0", "e"}, []*onnxpb.TensorProto{e}
	return k
}

func TestPowOfAConstant(t *testing.T) {
	for _, e := range []float64{-2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 2.5} {
		name := fmt.Sprintf("%v ", e)
		scalar := ir.Float64Tensor("e", nil, []float64{e})
		checkJacobian(t, exponent(jacobianCase{name: name, shapes: [][]int64{{2, 3}}, draw: positive}, scalar))
		if e == math.Trunc(e) {
			whole := ir.Int64Tensor("e", int64(e))
			checkJacobian(t,
				exponent(jacobianCase{name: name + "negative base ", shapes: [][]int64{{2, 3}}, draw: steady}, scalar),
				exponent(jacobianCase{name: name + "integer ", shapes: [][]int64{{2, 3}}, draw: steady}, whole),
				exponent(jacobianCase{name: name + "opset 12 ", shapes: [][]int64{{2, 3}}, draw: steady, opset: 12, static: true}, whole),
			)
		}
	}
	checkJacobian(t,
		exponent(jacobianCase{name: "opset 7 ", shapes: [][]int64{{2, 3}}, draw: positive, opset: 7, static: true}, ir.Float64Tensor("e", nil, []float64{2})),
		exponent(jacobianCase{name: "single ", shapes: [][]int64{{2, 3}}, draw: within(1, 3), single: true}, ir.Float32Tensor("e", nil, []float32{1.5})),
		exponent(jacobianCase{name: "rank ", shapes: [][]int64{{3}}, draw: positive}, ir.Float64Tensor("e", []int64{1, 1}, []float64{1.5})),
		exponent(jacobianCase{name: "list ", shapes: [][]int64{{2, 3}}, draw: positive}, ir.Float64Tensor("e", []int64{3}, []float64{2, 0, 1})),
		exponent(jacobianCase{name: "integers ", shapes: [][]int64{{2, 3}}, draw: steady}, ir.Int64Tensor("e", 2, -1, 3)),
	)
}

func TestPow(t *testing.T) {
	for _, p := range pairings {
		checkJacobian(t, jacobianCase{op: "Pow", shapes: p, draw: positive})
	}
	shapes := [][]int64{{2, 3}, {2, 3}}
	checkJacobian(t,
		jacobianCase{op: "Pow", name: "batch", shapes: shapes, dims: [][]int64{{-1, 3}, {-1, 3}}, draw: positive},
		jacobianCase{op: "Pow", name: "opset 9", shapes: shapes, draw: positive, opset: 9, static: true},
		jacobianCase{op: "Pow", name: "constant base", shapes: shapes, wrt: []int{1}, draw: positive, args: []string{"base", "x1"}, tensors: []*onnxpb.TensorProto{ir.Float64Tensor("base", nil, []float64{2})}},
		jacobianCase{op: "Pow", name: "float32 exponent", shapes: shapes, draw: positive, build: func(g *ir.Graph, args []string) {
			e := g.Add("Cast", []string{args[1]}, ir.Int("to", int64(ir.Float32)))
			g.AddNamed("the_node", "Pow", []string{args[0], e}, []string{"y"})
		}},
	)
}

// At a base of 0, and below, the gradients are finite.
func TestPowAtZero(t *testing.T) {
	exponents := []float32{2, 3, 0.5, 1.5, 1, 0, 4, 2}
	x := []float32{0, 0, 0, 0, 0, 0, 0, -3}
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(8)))
		must(t, g.Initializer(ir.Float32Tensor("e", []int64{8}, exponents)))
		g.AddNamed("y", "Pow", []string{"x", "e"}, []string{"y"})
	})
	got := gradients(t, m, "y", []string{"x", "e"}, x)
	equal(t, got[0], 0, 0, 0, 0, 1, 0, 0, -6)
	equal(t, got[1], 0, 0, 0, 0, 0, 0, 0, 0)
	for _, e := range exponents {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
			must(t, g.Initializer(ir.Float32Tensor("e", []int64{}, []float32{e})))
			g.AddNamed("y", "Pow", []string{"x", "e"}, []string{"y"})
		})
		want := float32(0)
		if e == 1 {
			want = 1
		}
		equal(t, gradients(t, m, "y", []string{"x"}, []float32{0, 1})[0], want, e)
	}
}
