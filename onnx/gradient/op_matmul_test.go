package gradient

import "testing"

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
	)
}
