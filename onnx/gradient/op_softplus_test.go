package gradient

import "testing"

func TestSoftplus(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Softplus", shapes: [][]int64{{2, 3}}, single: true},
		jacobianCase{op: "Softplus", shapes: [][]int64{{}}, single: true},
	)
}
