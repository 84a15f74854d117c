package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestHardSigmoid(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "HardSigmoid", shapes: [][]int64{{2, 6}}, draw: within(-4, 4, -2.5, 2.5), single: true},
		jacobianCase{op: "HardSigmoid", shapes: [][]int64{{}}, single: true},
		jacobianCase{op: "HardSigmoid", name: "1, 0.25", shapes: [][]int64{{8}}, attrs: []*onnxpb.AttributeProto{ir.Float("alpha", 1), ir.Float("beta", 0.25)}, draw: within(-2, 2, -0.25, 0.75), single: true},
		jacobianCase{op: "HardSigmoid", name: "-0.5", shapes: [][]int64{{8}}, attrs: []*onnxpb.AttributeProto{ir.Float("alpha", -0.5)}, draw: within(-2, 2, -1, 1), single: true, opset: 7, static: true},
	)
}

func TestHardSwish(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "HardSwish", shapes: [][]int64{{2, 6}}, draw: within(-5, 5, -3, 3), single: true},
		jacobianCase{op: "HardSwish", shapes: [][]int64{{}}, single: true, opset: 14},
		jacobianCase{op: "HardSwish", name: "opset 22", shapes: [][]int64{{3}}, single: true, opset: 22},
	)
}
