package gradient

import "testing"

func TestTanh(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Tanh", shapes: [][]int64{{2, 3}}},
		jacobianCase{op: "Tanh", shapes: [][]int64{{}}},
	)
}
