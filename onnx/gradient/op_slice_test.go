package gradient

import (
	"math"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestSlice(t *testing.T) {
	for _, k := range [][][]int64{
		{{1}, {3}, {0}}, {{0, 1}, {math.MaxInt64, 2}, {0, 1}}, {{-2}, {-1}, {-1}}, {{0}, {2}}, {{1}, {3}, {1}, {1}}, {{-100}, {100}, {0}},
	} {
		checkJacobian(t, jacobianCase{op: "Slice", shapes: [][]int64{{4, 3}}, ints: k, static: true})
	}
	checkJacobian(t,
		jacobianCase{op: "Slice", name: "batch", shapes: [][]int64{{2, 5}}, ints: [][]int64{{1}, {4}, {1}}, dims: [][]int64{{-1, 5}}, static: true},
		jacobianCase{op: "Slice", name: "opset 9", opset: 9, shapes: [][]int64{{2, 5}}, static: true,
			attrs: []*onnxpb.AttributeProto{ir.Ints("starts", 1), ir.Ints("ends", 4), ir.Ints("axes", 1)}},
	)
}
