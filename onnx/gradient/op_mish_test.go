package gradient

import "testing"

func TestMish(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Mish", shapes: [][]int64{{2, 3}}, opset: 18, single: true},
		jacobianCase{op: "Mish", shapes: [][]int64{{}}, opset: 18, single: true},
	)
}
