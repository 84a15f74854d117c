package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestConcat(t *testing.T) {
	axis := func(a int64) []*onnxpb.AttributeProto { return []*onnxpb.AttributeProto{ir.Int("axis", a)} }
	checkJacobian(t,
		jacobianCase{op: "Concat", shapes: [][]int64{{2, 3}, {1, 3}, {2, 3}}, attrs: axis(0)},
		jacobianCase{op: "Concat", shapes: [][]int64{{2, 3}, {2, 1}}, attrs: axis(-1)},
		jacobianCase{op: "Concat", name: "batch", shapes: [][]int64{{2, 3}, {2, 1}}, attrs: axis(1), dims: [][]int64{{-1, 3}, {-1, 1}}, static: true},
		jacobianCase{op: "Concat", name: "one", shapes: [][]int64{{2, 3}}, attrs: axis(1)},
		jacobianCase{op: "Concat", name: "one of three", shapes: [][]int64{{2, 3}, {2, 1}, {2, 2}}, attrs: axis(1), wrt: []int{1}},
		jacobianCase{op: "Concat", name: "unknown rank", shapes: [][]int64{{2, 3}, {2, 1}}, build: func(g *ir.Graph, args []string) {
			free := unranked(t, g, args[0])
			g.AddNamed("the_node", "Concat", []string{free, args[1]}, []string{"y"}, ir.Int("axis", -1))
		}},
		jacobianCase{op: "Concat", name: "opset 9", opset: 9, shapes: [][]int64{{2, 3}, {2, 1}}, attrs: axis(1), static: true},
	)
}
