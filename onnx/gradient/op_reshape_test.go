package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestReshape(t *testing.T) {
	for _, target := range [][]int64{{6, 2}, {-1}, {0, -1}, {0, 3, 2}, {2, 1, -1}, {0, 0, 1, 2}} {
		checkJacobian(t, jacobianCase{op: "Reshape", shapes: [][]int64{{2, 3, 2}}, ints: [][]int64{target}})
	}
	checkJacobian(t, jacobianCase{op: "Reshape", name: "batch", shapes: [][]int64{{2, 3, 2}}, dims: [][]int64{{-1, 3, 2}}, ints: [][]int64{{-1, 6}}})
}

func TestFlatten(t *testing.T) {
	for _, axis := range []int64{0, 1, 2, 3, -1} {
		checkJacobian(t, jacobianCase{op: "Flatten", shapes: [][]int64{{2, 3, 2}}, attrs: []*onnxpb.AttributeProto{ir.Int("axis", axis)}})
	}
	checkJacobian(t, jacobianCase{op: "Flatten", name: "batch", shapes: [][]int64{{2, 3, 2}}, dims: [][]int64{{-1, 3, 2}}})
}
