package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestTopK(t *testing.T) {
	values := func(k jacobianCase) jacobianCase {
		k.op, k.draw = "TopK", scattered()
		k.build = func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", "TopK", args, []string{"y", "places"}, k.attrs...)
		}
		return k
	}
	for _, axis := range []int64{0, 1, -1} {
		for _, largest := range []int64{0, 1} {
			attrs := []*onnxpb.AttributeProto{ir.Int("axis", axis), ir.Int("largest", largest)}
			checkJacobian(t, values(jacobianCase{
				name: fmt.Sprintf("axis %d largest %d ", axis, largest), shapes: [][]int64{{3, 2, 4}}, ints: [][]int64{{2}}, attrs: attrs,
			}))
		}
	}
	checkJacobian(t,
		values(jacobianCase{name: "batch", shapes: [][]int64{{2, 4}}, dims: [][]int64{{-1, 4}}, ints: [][]int64{{3}}}),
		values(jacobianCase{name: "opset 10", opset: 10, static: true, shapes: [][]int64{{2, 4}}, ints: [][]int64{{3}}}),
		values(jacobianCase{name: "opset 9", opset: 9, static: true, shapes: [][]int64{{2, 4}}, attrs: []*onnxpb.AttributeProto{ir.Int("k", 3)}}),
	)
}
