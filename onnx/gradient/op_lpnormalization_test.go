package gradient

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestLpNormalization(t *testing.T) {
	for _, p := range []int64{1, 2} {
		for _, axis := range []int64{0, 1, -1} {
			attrs := []*onnxpb.AttributeProto{ir.Int("p", p), ir.Int("axis", axis)}
			opsets := []int64{17}
			if axis == 1 {
				opsets = []int64{8, 17, 18, 22}
			}
			for _, opset := range opsets {
				checkJacobian(t, jacobianCase{
					op: "LpNormalization", name: fmt.Sprintf("p %d axis %d opset %d ", p, axis, opset), opset: opset, shapes: [][]int64{{2, 3, 2}},
					attrs: attrs, draw: steady, static: opset < 13,
				})
			}
		}
	}
	unranked := jacobianCase{op: "LpNormalization", name: "rank unknown", shapes: [][]int64{{2, 3}}, draw: steady}
	unranked.build = unranked.unranked
	checkJacobian(t, unranked, jacobianCase{op: "LpNormalization", name: "batch", shapes: [][]int64{{2, 3}}, dims: [][]int64{{-1, 3}}, draw: steady})
}

func TestLpNormalizationOfZeros(t *testing.T) {
	for _, p := range []int64{1, 2, 3} {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Fixed(2), ir.Fixed(2)))
			unit := g.Add("LpNormalization", []string{"x"}, ir.Int("p", p))
			g.AddNamed("y", "Mul", []string{unit, unit}, []string{"y"})
		})
		if p == 3 {
			if _, err := Gradient(m, "y", []string{"x"}); err == nil || !strings.Contains(err.Error(), "attribute p is 3") {
				t.Errorf("error %v", err)
			}
			continue
		}
		equal(t, gradients(t, m, "y", []string{"x"}, []float32{0, 0, 2, 0})[0], 0, 0, 0, 0)
	}
}
