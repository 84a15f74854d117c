package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestOneHot(t *testing.T) {
	constants := []*onnxpb.TensorProto{indices("index", []int64{2, 2}, 0, 2, -1, 1), indices("depth", nil, 3)}
	for _, axis := range []int64{-1, 0, 1} {
		checkJacobian(t, jacobianCase{op: "OneHot", shapes: [][]int64{{2}}, args: []string{"index", "depth", "x0"}, tensors: constants, attrs: []*onnxpb.AttributeProto{ir.Int("axis", axis)}, single: true})
	}
}
