package gradient

import (
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

func TestMatMul(t *testing.T) {
	for _, shapes := range [][][]int64{
		{{2, 3}, {3, 4}}, {{3}, {3}}, {{3}, {3, 2}}, {{2, 3}, {3}}, {{2, 2, 3}, {3, 4}}, {{2, 3}, {2, 3, 2}},
		{{2, 2, 3}, {2, 3, 2}}, {{2, 1, 2, 3}, {3, 3, 2}}, {{1, 2, 3}, {2, 3, 2}}, {{2, 2, 3}, {3}}, {{3}, {2, 3, 2}},
	} {
		checkJacobian(t, jacobianCase{op: "MatMul", shapes: shapes})
	}
	checkJacobian(t,
		jacobianCase{op: "MatMul", name: "batch", shapes: [][]int64{{2, 2, 3}, {3, 4}}, dims: [][]int64{{-1, 2, 3}, {3, 4}}},
		jacobianCase{op: "MatMul", name: "opset 9", opset: 9, shapes: [][]int64{{2, 3}, {3, 4}}, static: true},
		jacobianCase{op: "MatMul", name: "opset 9 batch", opset: 9, shapes: [][]int64{{2, 2, 3}, {3, 4}}, static: true},
	)
	for _, a := range [][]int64{{3}, {2, 3}, {2, 2, 3}} {
		k := jacobianCase{op: "MatMul", name: "rank unknown", shapes: [][]int64{a, {3, 2}}}
		k.build = k.unranked
		checkJacobian(t, k)
	}
}

func TestMatMulOfUnknownRank(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(2), ir.Fixed(2)))
		free := unranked(t, g, "x")
		g.AddNamed("the_node", "MatMul", []string{"x", free}, []string{"y"})
	})
	if _, err := Gradient(m, "y", []string{"x"}); err == nil || !strings.Contains(err.Error(), "run ONNX shape inference on the model first") {
		t.Errorf("error %v", err)
	}
}
