package gradient

import "testing"

func TestExp(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Exp", shapes: [][]int64{{2, 3}}},
		jacobianCase{op: "Exp", shapes: [][]int64{{}}},
	)
}
