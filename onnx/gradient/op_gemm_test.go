package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestGemm(t *testing.T) {
	for _, opset := range []int64{17, 9} {
		for trans := range int64(4) {
			transA, transB := trans&1, trans>>1
			a, b := []int64{2, 3}, []int64{3, 4}
			if transA != 0 {
				a = []int64{3, 2}
			}
			if transB != 0 {
				b = []int64{4, 3}
			}
			attrs := []*onnxpb.AttributeProto{ir.Int("transA", transA), ir.Int("transB", transB), ir.Float("alpha", 0.5), ir.Float("beta", -2)}
			for _, bias := range [][]int64{{4}, {2, 4}, {1, 4}, {2, 1}, {}} {
				checkJacobian(t, jacobianCase{
					op: "Gemm", name: fmt.Sprintf("opset %d trans %d%d ", opset, transA, transB), opset: opset, attrs: attrs,
					shapes: [][]int64{a, b, bias}, static: opset < 13,
				})
				if trans != 0 || opset != 17 {
					break
				}
			}
		}
	}
	checkJacobian(t,
		jacobianCase{op: "Gemm", name: "no bias", shapes: [][]int64{{2, 3}, {3, 4}}},
		jacobianCase{op: "Gemm", name: "batch", shapes: [][]int64{{2, 3}, {3, 4}, {4}}, dims: [][]int64{{-1, 3}, {3, 4}, {4}}},
	)
}
