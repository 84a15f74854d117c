package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestReduceProd(t *testing.T) {
	checkReduction(t, "ReduceProd", nil)
	for range 3 {
		checkJacobian(t,
			jacobianCase{op: "ReduceProd", name: "zeros", shapes: [][]int64{{4, 3}}, attrs: []*onnxpb.AttributeProto{ir.Ints("axes", 1)}, draw: someZeros},
			jacobianCase{op: "ReduceProd", name: "zeros opset 8", opset: 8, shapes: [][]int64{{4, 3}}, attrs: []*onnxpb.AttributeProto{ir.Ints("axes", 1)}, draw: someZeros, static: true},
		)
	}
}
