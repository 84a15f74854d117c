package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestLeakyRelu(t *testing.T) {
	alpha := func(v float32) []*onnxpb.AttributeProto { return []*onnxpb.AttributeProto{ir.Float("alpha", v)} }
	checkJacobian(t,
		jacobianCase{op: "LeakyRelu", shapes: [][]int64{{2, 3}}, single: true},
		jacobianCase{op: "LeakyRelu", name: "0.2", shapes: [][]int64{{8}}, attrs: alpha(0.2), single: true},
		jacobianCase{op: "LeakyRelu", name: "0", shapes: [][]int64{{8}}, attrs: alpha(0), single: true},
		jacobianCase{op: "LeakyRelu", name: "-0.5", shapes: [][]int64{{8}}, attrs: alpha(-0.5), single: true},
	)
}
