package gradient

import "testing"

func TestSoftsign(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Softsign", shapes: [][]int64{{2, 3}}, single: true},
		jacobianCase{op: "Softsign", shapes: [][]int64{{}}, single: true},
	)
}
