package gradient

import "testing"

func TestNeg(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Neg", shapes: [][]int64{{2, 3}}},
		jacobianCase{op: "Neg", shapes: [][]int64{{}}},
	)
}
