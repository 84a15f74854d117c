package gradient

import "testing"

func TestIdentity(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Identity", shapes: [][]int64{{2, 3}}},
		jacobianCase{op: "Identity", shapes: [][]int64{{}}},
	)
}
