package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestRelu(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Relu", shapes: [][]int64{{2, 3}}},
		jacobianCase{op: "Relu", shapes: [][]int64{{}}},
		jacobianCase{op: "Relu", shapes: [][]int64{{2, 3}}, single: true},
		jacobianCase{op: "Relu", name: "opset 7 ", shapes: [][]int64{{2, 3}}, single: true, opset: 7, static: true},
	)
}

func TestThresholdedRelu(t *testing.T) {
	alpha := func(v float32) []*onnxpb.AttributeProto { return []*onnxpb.AttributeProto{ir.Float("alpha", v)} }
	checkJacobian(t,
		jacobianCase{op: "ThresholdedRelu", shapes: [][]int64{{2, 6}}, draw: within(-2, 2, 1), single: true},
		jacobianCase{op: "ThresholdedRelu", name: "0", shapes: [][]int64{{8}}, attrs: alpha(0), single: true},
		jacobianCase{op: "ThresholdedRelu", name: "-0.5", shapes: [][]int64{{8}}, attrs: alpha(-0.5), draw: within(-2, 2, -0.5), single: true},
	)
}
