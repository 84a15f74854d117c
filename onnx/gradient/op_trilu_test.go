package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestTrilu(t *testing.T) {
	diagonal := []*onnxpb.TensorProto{indices("k", nil, -1)}
	for _, upper := range []int64{0, 1} {
		attrs := []*onnxpb.AttributeProto{ir.Int("upper", upper)}
		checkJacobian(t,
			jacobianCase{op: "Trilu", shapes: [][]int64{{2, 3, 4}}, attrs: attrs},
			jacobianCase{op: "Trilu", name: "below", shapes: [][]int64{{4, 3}}, attrs: attrs, args: []string{"x0", "k"}, tensors: diagonal},
		)
	}
}
