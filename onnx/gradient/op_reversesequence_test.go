package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestReverseSequence(t *testing.T) {
	axes := []*onnxpb.AttributeProto{ir.Int("time_axis", 1), ir.Int("batch_axis", 0)}
	checkJacobian(t,
		jacobianCase{op: "ReverseSequence", shapes: [][]int64{{4, 2, 2}}, ints: [][]int64{{3, 4}}, single: true},
		jacobianCase{op: "ReverseSequence", name: "batch first", shapes: [][]int64{{3, 4}}, ints: [][]int64{{1, 3, 2}}, attrs: axes, single: true},
	)
}
