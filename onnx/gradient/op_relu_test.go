package gradient

import "testing"

func TestRelu(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Relu", shapes: [][]int64{{2, 3}}},
		jacobianCase{op: "Relu", shapes: [][]int64{{}}},
	)
}
