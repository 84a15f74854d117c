package gradient

import "testing"

func TestSinh(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Sinh", shapes: [][]int64{{2, 3}}, single: true},
		jacobianCase{op: "Sinh", shapes: [][]int64{{}}, single: true},
	)
}

func TestCosh(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Cosh", shapes: [][]int64{{2, 3}}, single: true},
		jacobianCase{op: "Cosh", shapes: [][]int64{{}}, single: true},
	)
}
