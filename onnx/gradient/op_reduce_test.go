package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// checkReduction tries axes in every form, with and without keepdims. asInput says that operator set 17 takes the axes
// as an input; the other reductions do so from 18 on.
func checkReduction(t *testing.T, op string, asInput bool) {
	t.Helper()
	for _, axes := range [][]int64{nil, {0}, {1}, {-1}, {0, 2}, {-1, 0}, {0, 1, 2}} {
		for _, keep := range []int64{0, 1} {
			attrs := []*onnxpb.AttributeProto{ir.Int("keepdims", keep)}
			k := jacobianCase{op: op, name: fmt.Sprintf("axes %v keep %d ", axes, keep), shapes: [][]int64{{2, 3, 2}}, attrs: attrs}
			if axes != nil && asInput {
				k.ints = [][]int64{axes}
			} else if axes != nil {
				k.attrs = append(attrs, ir.Ints("axes", axes...))
			}
			checkJacobian(t, k)
		}
	}
	checkJacobian(t,
		jacobianCase{op: op, name: "batch", shapes: [][]int64{{2, 3}}, dims: [][]int64{{-1, 3}}},
		jacobianCase{op: op, name: "opset 18", opset: 18, shapes: [][]int64{{2, 3}}, ints: [][]int64{{1}}},
		jacobianCase{op: op, name: "opset 18 none", opset: 18, shapes: [][]int64{{2, 3}}, ints: [][]int64{{}}, attrs: []*onnxpb.AttributeProto{ir.Int("noop_with_empty_axes", 1)}},
		jacobianCase{op: op, name: "opset 11", opset: 11, shapes: [][]int64{{2, 3}}, attrs: []*onnxpb.AttributeProto{ir.Ints("axes", -1), ir.Int("keepdims", 0)}, static: true},
	)
}
