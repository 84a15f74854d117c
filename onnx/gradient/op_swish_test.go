package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestSwish(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Swish", shapes: [][]int64{{2, 3}}, opset: 24, single: true},
		jacobianCase{op: "Swish", shapes: [][]int64{{}}, opset: 24, single: true},
		jacobianCase{op: "Swish", name: "1.5", shapes: [][]int64{{6}}, attrs: []*onnxpb.AttributeProto{ir.Float("alpha", 1.5)}, opset: 24, single: true},
		jacobianCase{op: "Swish", name: "-0.5", shapes: [][]int64{{6}}, attrs: []*onnxpb.AttributeProto{ir.Float("alpha", -0.5)}, opset: 24, single: true},
	)
}
