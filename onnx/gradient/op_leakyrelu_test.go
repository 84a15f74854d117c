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
		jacobianCase{op: "LeakyRelu", name: "1.5", shapes: [][]int64{{8}}, attrs: alpha(1.5), single: true},
		jacobianCase{op: "LeakyRelu", name: "opset 7", shapes: [][]int64{{8}}, attrs: alpha(0.2), single: true, opset: 7, static: true},
	)
}

func TestPRelu(t *testing.T) {
	for _, shapes := range [][][]int64{
		{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 3}, {}}, {{2, 3, 2}, {3, 1}}, {{2, 3, 2, 1}, {1, 3, 1, 1}}, {{4}, {1}},
	} {
		checkJacobian(t, jacobianCase{op: "PRelu", shapes: shapes, single: true})
	}
	checkJacobian(t,
		jacobianCase{op: "PRelu", name: "constant slope", shapes: [][]int64{{2, 3, 2}, {3, 1}}, wrt: []int{0}, consts: true, single: true},
		jacobianCase{op: "PRelu", name: "batch", shapes: [][]int64{{2, 3, 2}, {3, 1}}, dims: [][]int64{{-1, 3, 2}, {3, 1}}, single: true},
		jacobianCase{op: "PRelu", name: "opset 9 ", shapes: [][]int64{{2, 3, 2}, {3, 1}}, static: true, opset: 9, single: true},
	)
}
