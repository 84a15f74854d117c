package gradient

import "testing"

func TestAbs(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Abs", shapes: [][]int64{{2, 3}}},
		jacobianCase{op: "Abs", shapes: [][]int64{{6}}, single: true},
		jacobianCase{op: "Abs", name: "opset 9 ", shapes: [][]int64{{6}}, opset: 9, static: true},
		jacobianCase{op: "Abs", name: "opset 7 ", shapes: [][]int64{{6}}, opset: 7, static: true, single: true},
	)
}
