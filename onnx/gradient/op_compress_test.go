package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestCompress(t *testing.T) {
	condition := func(keep ...int32) []*onnxpb.TensorProto {
		return []*onnxpb.TensorProto{{Name: "keep", DataType: ir.Bool, Dims: []int64{int64(len(keep))}, Int32Data: keep}}
	}
	for _, keep := range [][]int32{{0, 1, 1}, {1, 0}, {0, 0, 1}} {
		in := []string{"x0", "keep"}
		checkJacobian(t,
			jacobianCase{op: "Compress", name: "all", shapes: [][]int64{{3, 2}}, args: in, tensors: condition(keep...)},
			jacobianCase{op: "Compress", name: "rows", shapes: [][]int64{{3, 2}}, args: in, tensors: condition(keep...), attrs: []*onnxpb.AttributeProto{ir.Int("axis", 0)}},
			jacobianCase{op: "Compress", name: "columns", shapes: [][]int64{{2, 3, 2}}, args: in, tensors: condition(keep...), attrs: []*onnxpb.AttributeProto{ir.Int("axis", -2)}},
		)
	}
}
