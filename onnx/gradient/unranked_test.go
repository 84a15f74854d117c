package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

func TestShapingUnknownRank(t *testing.T) {
	axes := [][]int64{{0}}
	for _, op := range []string{"Squeeze", "Unsqueeze"} {
		checkJacobian(t, jacobianCase{op: op, name: "unknown rank", shapes: [][]int64{{1, 3, 2}}, ints: axes, build: func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", op, []string{unranked(t, g, args[0]), args[1]}, []string{"y"})
		}})
	}
	checkJacobian(t,
		jacobianCase{op: "Flatten", name: "unknown rank", shapes: [][]int64{{2, 3, 2}}, build: func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", "Flatten", []string{unranked(t, g, args[0])}, []string{"y"})
		}},
		jacobianCase{op: "Transpose", name: "unknown rank", shapes: [][]int64{{2, 3}}, build: func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", "Transpose", []string{unranked(t, g, args[0])}, []string{"y"})
		}},
		jacobianCase{op: "Slice", name: "unknown rank", shapes: [][]int64{{3, 3}}, ints: [][]int64{{1}, {3}, {-1}}, build: func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", "Slice", []string{unranked(t, g, args[0]), args[1], args[2], args[3]}, []string{"y"})
		}},
		jacobianCase{op: "Pad", name: "unknown rank", shapes: [][]int64{{3, 3}}, ints: [][]int64{{1, 0, 2, 0}}, build: func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", "Pad", []string{unranked(t, g, args[0]), args[1]}, []string{"y"})
		}},
		jacobianCase{op: "Tile", name: "unknown rank", shapes: [][]int64{{3, 3}}, ints: [][]int64{{1, 2}}, build: func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", "Tile", []string{unranked(t, g, args[0]), args[1]}, []string{"y"})
		}},
		jacobianCase{op: "Split", name: "unknown rank", shapes: [][]int64{{2, 3}}, ints: [][]int64{{1, 2}}, build: func(g *ir.Graph, args []string) {
			splitInto(1, "u.")(g, []string{unranked(t, g, args[0]), args[1]})
		}},
	)
}
