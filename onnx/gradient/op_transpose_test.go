package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestTranspose(t *testing.T) {
	checkJacobian(t, jacobianCase{op: "Transpose", name: "reversed", shapes: [][]int64{{2, 3, 4}}})
	for _, perm := range [][]int64{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}} {
		checkJacobian(t, jacobianCase{op: "Transpose", shapes: [][]int64{{2, 3, 4}}, attrs: []*onnxpb.AttributeProto{ir.Ints("perm", perm...)}})
	}
}
