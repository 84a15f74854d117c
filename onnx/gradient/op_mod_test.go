package gradient

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

var fmod = []*onnxpb.AttributeProto{ir.Int("fmod", 1)}

// With distinct numbers from [1.05, 1.95] no quotient is near a whole number.
func TestMod(t *testing.T) {
	numbers := differing()
	oneToTwo := func(rng *rand.Rand) float64 { return 1.5 + 0.22*numbers(rng) }
	checkJacobian(t,
		jacobianCase{op: "Mod", shapes: [][]int64{{2, 3}, {2, 3}}, attrs: fmod, draw: oneToTwo},
		jacobianCase{op: "Mod", shapes: [][]int64{{2, 3}, {3}}, attrs: fmod, draw: oneToTwo},
		jacobianCase{op: "Mod", shapes: [][]int64{{2, 1}, {1, 3}}, attrs: fmod, draw: oneToTwo, opset: 10, static: true},
	)
}

func TestModOfIntegers(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
		g.AddNamed("the_node", "Mod", []string{"x", "x"}, []string{"y"})
	})
	if _, err := Gradient(m, "y", []string{"x"}); err == nil || !strings.Contains(err.Error(), "fmod=1") {
		t.Errorf("error %v", err)
	}
}

func TestModValues(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(4)))
		must(t, g.Initializer(ir.Float32Tensor("b", []int64{4}, []float32{2, 2, -2, 3})))
		g.AddNamed("y", "Mod", []string{"x", "b"}, []string{"y"}, fmod...)
	})
	got := gradients(t, m, "y", []string{"x", "b"}, []float32{5, -5, 7.5, 1})
	equal(t, got[0], 1, 1, 1, 1)
	equal(t, got[1], -2, 2, 3, 0)
}
