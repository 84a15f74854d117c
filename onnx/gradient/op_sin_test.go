package gradient

import "testing"

func TestSin(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Sin", shapes: [][]int64{{2, 3}}},
		jacobianCase{op: "Sin", shapes: [][]int64{{}}},
	)
}

func TestCos(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Cos", shapes: [][]int64{{2, 3}}, single: true},
		jacobianCase{op: "Cos", shapes: [][]int64{{}}, single: true},
	)
}

func TestTan(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Tan", shapes: [][]int64{{2, 3}}, draw: within(-0.4, 0.4), single: true},
		jacobianCase{op: "Tan", shapes: [][]int64{{}}, draw: within(-0.4, 0.4), single: true},
	)
}
