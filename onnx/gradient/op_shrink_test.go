package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestShrink(t *testing.T) {
	numbers := []*onnxpb.AttributeProto{ir.Float("lambd", 1), ir.Float("bias", 0.25)}
	checkJacobian(t,
		jacobianCase{op: "Shrink", shapes: [][]int64{{2, 6}}, draw: within(-2, 2, -0.5, 0.5)},
		jacobianCase{op: "Shrink", name: "1, 0.25", shapes: [][]int64{{8}}, attrs: numbers, draw: within(-2, 2, -1, 1), opset: 9, static: true},
	)
}
