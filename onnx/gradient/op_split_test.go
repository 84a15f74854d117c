package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// splitInto builds y from the outputs of a Split that are used: each is squared, so that their gradients differ, and
// reduced to one row, so that pieces of several sizes fit together. The others have a name, or none where it is "-".
func splitInto(axis int64, use string, attrs ...*onnxpb.AttributeProto) func(g *ir.Graph, args []string) {
	return func(g *ir.Graph, args []string) {
		outs := make([]string, len(use))
		var parts []string
		for i, kind := range use {
			if kind != '-' {
				outs[i] = fmt.Sprintf("part%d", i)
			}
		}
		g.AddNamed("the_node", "Split", args, outs, append(attrs, ir.Int("axis", axis))...)
		for i, kind := range use {
			if kind == 'u' {
				parts = append(parts, g.Add("Mul", []string{outs[i], outs[i]}))
			}
		}
		g.AddNamed("parts", "Concat", parts, []string{"y"}, ir.Int("axis", axis))
	}
}

func TestSplit(t *testing.T) {
	x := [][]int64{{2, 7, 3}}
	sizes := [][]int64{{2, 1, 4}}
	for _, use := range []string{"uuu", "u..", ".u.", "..u", "u.u", "uu."} {
		checkJacobian(t,
			jacobianCase{op: "Split", name: use, shapes: x, ints: sizes, build: splitInto(1, use)},
			jacobianCase{op: "Split", name: use + " negative axis", shapes: x, ints: sizes, build: splitInto(-2, use), dims: [][]int64{{-1, 7, -1}}, static: true},
			jacobianCase{op: "Split", name: use + " equal", shapes: [][]int64{{6, 2}}, build: splitInto(0, use)},
			jacobianCase{op: "Split", name: use + " opset 11", opset: 11, shapes: x, build: splitInto(1, use, ir.Ints("split", 2, 1, 4)), static: true},
			jacobianCase{op: "Split", name: use + " opset 18", opset: 18, shapes: x, build: splitInto(1, use, ir.Int("num_outputs", 3))},
		)
	}
	checkJacobian(t,
		jacobianCase{op: "Split", name: "copies", shapes: [][]int64{{4, 2}}, build: func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", "Split", args, []string{"a", "b"}, ir.Int("axis", 0))
			g.AddNamed("product", "Mul", []string{"a", "b"}, []string{"y"})
		}},
		jacobianCase{op: "Split", name: "one", shapes: [][]int64{{2, 3}}, ints: [][]int64{{3}}, build: splitInto(1, "u")},
	)
}
