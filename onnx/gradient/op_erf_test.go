package gradient

import "testing"

func TestErf(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Erf", shapes: [][]int64{{2, 3}}, single: true},
		jacobianCase{op: "Erf", shapes: [][]int64{{}}, single: true},
	)
}
