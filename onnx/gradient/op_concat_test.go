package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestConcat(t *testing.T) {
	axis := func(a int64) []*onnxpb.AttributeProto { return []*onnxpb.AttributeProto{ir.Int("axis", a)} }
	checkJacobian(t,
		jacobianCase{op: "Concat", shapes: [][]int64{{2, 3}, {1, 3}, {2, 3}}, attrs: axis(0), static: true},
		jacobianCase{op: "Concat", shapes: [][]int64{{2, 3}, {2, 1}}, attrs: axis(-1), static: true},
		jacobianCase{op: "Concat", name: "batch", shapes: [][]int64{{2, 3}, {2, 1}}, attrs: axis(1), dims: [][]int64{{-1, 3}, {-1, 1}}, static: true},
		jacobianCase{op: "Concat", name: "opset 9", opset: 9, shapes: [][]int64{{2, 3}, {2, 1}}, attrs: axis(1), static: true},
	)
}
