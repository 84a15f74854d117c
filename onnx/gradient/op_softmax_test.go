package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func checkSoftmax(t *testing.T, op string) {
	t.Helper()
	checkJacobian(t,
		jacobianCase{op: op, shapes: [][]int64{{2, 3}}},
		jacobianCase{op: op, name: "batch", shapes: [][]int64{{2, 3}}, dims: [][]int64{{-1, 3}}},
		jacobianCase{op: op, name: "opset 11 flattens", opset: 11, shapes: [][]int64{{2, 3, 2}}, static: true},
		jacobianCase{op: op, name: "opset 11 flattens all", opset: 11, shapes: [][]int64{{2, 2}}, attrs: []*onnxpb.AttributeProto{ir.Int("axis", 0)}, static: true},
	)
	for _, opset := range []int64{11, 13} {
		k := jacobianCase{op: op, name: "rank unknown", opset: opset, shapes: [][]int64{{2, 3, 2}}, static: true, attrs: []*onnxpb.AttributeProto{ir.Int("axis", -2)}}
		k.build = func(g *ir.Graph, args []string) {
			k.unranked(g, args)
			if opset < 13 { // The test adds operators around the node, which need its rank.
				last := g.Model.Graph.Node[len(g.Model.Graph.Node)-1]
				last.Output[0] = "unranked"
				g.AddNamed("ranked", "Reshape", []string{"unranked", "shape"}, []string{"y"})
				must(t, g.Initializer(ir.Int64Tensor("shape", 2, 3, 2)))
			}
		}
		checkJacobian(t, k)
	}
	for _, axis := range []int64{0, 1, -1, -2} {
		checkJacobian(t, jacobianCase{op: op, shapes: [][]int64{{2, 3, 2}}, attrs: []*onnxpb.AttributeProto{ir.Int("axis", axis)}})
	}
}

func TestSoftmax(t *testing.T)    { checkSoftmax(t, "Softmax") }
func TestLogSoftmax(t *testing.T) { checkSoftmax(t, "LogSoftmax") }
