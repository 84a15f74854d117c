package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestRotaryEmbedding(t *testing.T) {
	positions := ir.Int64Tensor("positions", 2, 0)
	positions.Dims = []int64{1, 2}
	for _, interleaved := range []int64{0, 1} {
		attrs := func(more ...*onnxpb.AttributeProto) []*onnxpb.AttributeProto {
			return append(more, ir.Int("interleaved", interleaved))
		}
		name := fmt.Sprintf("interleaved %d ", interleaved)
		cases := []jacobianCase{
			{name: "4 axes", shapes: [][]int64{{1, 2, 2, 4}, {1, 2, 2}, {1, 2, 2}}, dims: [][]int64{{-1, 2, 2, 4}, {-1, 2, 2}, {-1, 2, 2}}, attrs: attrs()},
			{name: "3 axes", shapes: [][]int64{{1, 2, 8}, {1, 2, 2}, {1, 2, 2}}, attrs: attrs(ir.Int("num_heads", 2))},
			{name: "part", shapes: [][]int64{{1, 1, 2, 6}, {1, 2, 2}, {1, 2, 2}}, attrs: attrs(ir.Int("rotary_embedding_dim", 4))},
			{
				name: "positions", shapes: [][]int64{{1, 1, 2, 4}, {3, 2}, {3, 2}}, attrs: attrs(),
				args: []string{"x0", "x1", "x2", "positions"}, tensors: []*onnxpb.TensorProto{positions},
			},
		}
		for _, k := range cases {
			k.op, k.name, k.opset, k.single = "RotaryEmbedding", name+k.name, 23, true
			checkJacobian(t, k)
			k.name, k.wrt = k.name+" x only", []int{0}
			checkJacobian(t, k)
		}
	}
}
