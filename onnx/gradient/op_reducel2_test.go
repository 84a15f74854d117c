package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

func TestReduceL2(t *testing.T) { checkReduction(t, "ReduceL2", steady) }

// At the kinks of the norms, and where the maximum is shared, the gradient is finite.
func TestReductionsAtKinks(t *testing.T) {
	for op, want := range map[string][]float32{
		"ReduceL1": {0, 1, 0, 0}, "ReduceL2": {0, 1, 0, 0}, "ReduceMax": {0, 1, 0.5, 0.5}, "ReduceMin": {1, 0, 0.5, 0.5},
		"ReduceProd": {3, 0, 0, 0},
	} {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Fixed(2), ir.Fixed(2)))
			g.AddNamed("the_node", op, []string{"x"}, []string{"y"}, ir.Ints("axes", 1))
		})
		t.Run(op, func(t *testing.T) { equal(t, gradients(t, m, "y", []string{"x"}, []float32{0, 3, 0, 0})[0], want...) })
	}
}
