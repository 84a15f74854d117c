package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

func TestMaxMin(t *testing.T) {
	for _, op := range []string{"Max", "Min"} {
		for _, p := range pairings {
			checkJacobian(t, jacobianCase{op: op, shapes: p, draw: differing()})
		}
		three := [][]int64{{2, 3}, {3}, {2, 1}}
		checkJacobian(t,
			jacobianCase{op: op, name: "batch", shapes: [][]int64{{4, 3}, {1, 3}}, draw: differing(), dims: [][]int64{{-1, 3}, {1, 3}}},
			jacobianCase{op: op, shapes: [][]int64{{2, 3}}, draw: differing()},
			jacobianCase{op: op, shapes: three, draw: differing()},
			jacobianCase{op: op, name: "first", shapes: three, draw: differing(), wrt: []int{0}},
			jacobianCase{op: op, name: "second", shapes: three, draw: differing(), wrt: []int{1}, consts: true, single: true},
			jacobianCase{op: op, name: "outer", shapes: three, draw: differing(), wrt: []int{0, 2}},
			jacobianCase{op: op, name: "opset 8", shapes: three[:2], draw: differing(), opset: 8, static: true},
			jacobianCase{op: op, name: "opset 12", shapes: three, draw: differing(), opset: 12, static: true},
		)
	}
}

func TestMaxOfEqualInputs(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(3)))
		must(t, g.Initializer(ir.Float32Tensor("a", []int64{3}, []float32{1, 2, 3})))
		must(t, g.Initializer(ir.Float32Tensor("b", []int64{3}, []float32{1, 5, 2})))
		g.AddNamed("y", "Max", []string{"a", "x", "b"}, []string{"y"})
	})
	got := gradients(t, m, "y", []string{"a", "x", "b"}, []float32{1, 5, 4})
	equal(t, got[0], 1, 0, 0)
	equal(t, got[1], 0, 1, 1)
	equal(t, got[2], 0, 0, 0)
}
