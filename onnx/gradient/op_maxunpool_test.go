package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestMaxUnpool(t *testing.T) {
	at := ir.Int64Tensor("at", 1, 2, 8, 11, 17, 18, 28, 31)
	at.Dims = []int64{1, 2, 2, 2}
	shape := ir.Int64Tensor("shape", 1, 2, 4, 4)
	pair := nodeAttrs(ir.Ints("kernel_shape", 2, 2), ir.Ints("strides", 2, 2))
	for _, args := range [][]string{{"x0", "at"}, {"x0", "at", "shape"}} {
		checkJacobian(t, jacobianCase{op: "MaxUnpool", name: args[len(args)-1], single: true, shapes: [][]int64{{1, 2, 2, 2}}, args: args,
			tensors: []*onnxpb.TensorProto{at, shape}, attrs: pair})
	}
}
