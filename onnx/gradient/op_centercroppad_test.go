package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestCenterCropPad(t *testing.T) {
	for _, to := range [][]int64{{3, 6}, {2, 2}, {8, 9}, {5, 4}} {
		checkJacobian(t, jacobianCase{op: "CenterCropPad", opset: 18, shapes: [][]int64{{5, 4}}, ints: [][]int64{to}})
	}
	axes := []*onnxpb.AttributeProto{ir.Ints("axes", -1, 1)}
	checkJacobian(t,
		jacobianCase{op: "CenterCropPad", name: "axes", opset: 18, shapes: [][]int64{{2, 3, 4}}, ints: [][]int64{{1, 6}}, attrs: axes},
		jacobianCase{op: "CenterCropPad", name: "batch", opset: 18, shapes: [][]int64{{2, 3, 4}}, ints: [][]int64{{1, 6}}, attrs: axes, dims: [][]int64{{-1, 3, 4}}, static: true},
	)
}
