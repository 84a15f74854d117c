package gradient

import "testing"

func TestMean(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Mean", shapes: [][]int64{{2, 3}}, single: true},
		jacobianCase{op: "Mean", shapes: [][]int64{{2, 3}, {2, 3}}, opset: 8, static: true, single: true},
		jacobianCase{op: "Mean", shapes: [][]int64{{2, 3}, {3}, {2, 1}}, single: true},
	)
}
