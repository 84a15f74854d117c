package gradient

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// checkCumulative tries the axes and directions of an operator that accumulates along an axis.
func checkCumulative(t *testing.T, op string, opset int64, draw func(*rand.Rand) float64) {
	t.Helper()
	for _, exclusive := range []int64{0, 1} {
		for _, reverse := range []int64{0, 1} {
			attrs := []*onnxpb.AttributeProto{ir.Int("exclusive", exclusive), ir.Int("reverse", reverse)}
			for _, axis := range []int64{0, 1, -1} {
				checkJacobian(t, jacobianCase{
					op: op, name: fmt.Sprintf("axis %d exclusive %d reverse %d ", axis, exclusive, reverse), opset: opset,
					shapes: [][]int64{{2, 4, 2}}, ints: [][]int64{{axis}}, attrs: attrs, draw: draw,
				})
			}
		}
	}
	k := jacobianCase{op: op, name: "computed axis", opset: opset, shapes: [][]int64{{2, 3}}, ints: [][]int64{{1}}, draw: draw}
	k.build = k.computedAxes
	checkJacobian(t, k, jacobianCase{op: op, name: "batch", opset: opset, shapes: [][]int64{{2, 3}}, dims: [][]int64{{-1, 3}}, ints: [][]int64{{1}}, draw: draw})
}

func TestCumSum(t *testing.T) {
	checkCumulative(t, "CumSum", 0, nil)
	checkJacobian(t, jacobianCase{op: "CumSum", name: "opset 11", opset: 11, shapes: [][]int64{{2, 3}}, ints: [][]int64{{1}}, static: true})
}
