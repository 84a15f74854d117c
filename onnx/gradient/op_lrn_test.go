package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestLRN(t *testing.T) {
	for _, size := range []int64{1, 3, 5} {
		attrs := []*onnxpb.AttributeProto{ir.Int("size", size), ir.Float("alpha", 0.5), ir.Float("beta", 0.75), ir.Float("bias", 2)}
		k := jacobianCase{op: "LRN", name: fmt.Sprintf("size %d ", size), shapes: [][]int64{{2, 4, 2, 1}}, attrs: attrs, single: true}
		checkJacobian(t, k)
		k.name, k.dims = "batch "+k.name, [][]int64{{-1, 4, 2, 1}}
		checkJacobian(t, k)
		k.name, k.dims, k.opset, k.static = "opset 8 "+k.name, nil, 8, true
		checkJacobian(t, k)
	}
	checkJacobian(t, jacobianCase{op: "LRN", name: "defaults", shapes: [][]int64{{1, 4, 2, 1}}, attrs: []*onnxpb.AttributeProto{ir.Int("size", 3)}, single: true})
}
