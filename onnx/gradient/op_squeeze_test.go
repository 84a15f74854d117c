package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestSqueeze(t *testing.T) {
	checkJacobian(t, jacobianCase{op: "Squeeze", name: "all", shapes: [][]int64{{1, 3, 1, 2}}})
	for _, axes := range [][]int64{{0}, {-2}, {2, 0}} {
		checkJacobian(t,
			jacobianCase{op: "Squeeze", shapes: [][]int64{{1, 3, 1, 2}}, ints: [][]int64{axes}},
			jacobianCase{op: "Squeeze", name: "opset 11", opset: 11, shapes: [][]int64{{1, 3, 1, 2}}, attrs: []*onnxpb.AttributeProto{ir.Ints("axes", axes...)}, static: true},
		)
	}
}

func TestUnsqueeze(t *testing.T) {
	for _, axes := range [][]int64{{0}, {-1}, {2, 0}, {0, -1}} {
		checkJacobian(t,
			jacobianCase{op: "Unsqueeze", shapes: [][]int64{{3, 2}}, ints: [][]int64{axes}},
			jacobianCase{op: "Unsqueeze", name: "opset 11", opset: 11, shapes: [][]int64{{3, 2}}, attrs: []*onnxpb.AttributeProto{ir.Ints("axes", axes...)}, static: true},
		)
	}
}
