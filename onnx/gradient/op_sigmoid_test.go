package gradient

import "testing"

func TestSigmoid(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Sigmoid", shapes: [][]int64{{2, 3}}},
		jacobianCase{op: "Sigmoid", shapes: [][]int64{{}}},
	)
}
