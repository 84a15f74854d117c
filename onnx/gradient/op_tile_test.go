package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

func TestTile(t *testing.T) {
	for _, repeats := range [][]int64{{1, 3}, {2, 1}, {2, 3}, {1, 1}} {
		checkJacobian(t,
			jacobianCase{op: "Tile", shapes: [][]int64{{2, 3}}, ints: [][]int64{repeats}},
			jacobianCase{op: "Tile", name: "batch", shapes: [][]int64{{2, 3}}, ints: [][]int64{repeats}, dims: [][]int64{{-1, 3}}, static: true},
			jacobianCase{op: "Tile", name: "opset 9", opset: 9, shapes: [][]int64{{2, 3}}, ints: [][]int64{repeats}, static: true},
			jacobianCase{op: "Tile", name: "computed", shapes: [][]int64{{2, 3}}, ints: [][]int64{repeats}, build: func(g *ir.Graph, args []string) {
				g.AddNamed("the_node", "Tile", []string{args[0], computed(g, args[1])}, []string{"y"})
			}},
		)
	}
	checkJacobian(t,
		jacobianCase{op: "Tile", shapes: [][]int64{{3}}, ints: [][]int64{{4}}},
		jacobianCase{op: "Tile", name: "unknown axes behind", shapes: [][]int64{{2, 2, 3, 2}}, ints: [][]int64{{1, 2, 1, 2}}, dims: [][]int64{{-1, 2, -1, -1}}, static: true},
	)
}
