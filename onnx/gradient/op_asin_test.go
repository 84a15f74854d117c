package gradient

import "testing"

func TestAsin(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Asin", shapes: [][]int64{{2, 3}}, draw: within(-0.5, 0.5), single: true},
		jacobianCase{op: "Asin", shapes: [][]int64{{}}, draw: within(-0.5, 0.5), single: true},
	)
}

func TestAcos(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Acos", shapes: [][]int64{{2, 3}}, draw: within(-0.5, 0.5), single: true},
		jacobianCase{op: "Acos", shapes: [][]int64{{}}, draw: within(-0.5, 0.5), single: true},
	)
}

func TestAtan(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Atan", shapes: [][]int64{{2, 3}}, single: true},
		jacobianCase{op: "Atan", shapes: [][]int64{{}}, single: true},
	)
}

func TestAsinh(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Asinh", shapes: [][]int64{{2, 3}}, single: true},
		jacobianCase{op: "Asinh", shapes: [][]int64{{}}, single: true},
	)
}

func TestAcosh(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Acosh", shapes: [][]int64{{2, 3}}, draw: within(1.5, 3.5), single: true},
		jacobianCase{op: "Acosh", shapes: [][]int64{{}}, draw: within(1.5, 3.5), single: true},
	)
}

func TestAtanh(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Atanh", shapes: [][]int64{{2, 3}}, draw: within(-0.3, 0.3), single: true},
		jacobianCase{op: "Atanh", shapes: [][]int64{{}}, draw: within(-0.3, 0.3), single: true},
	)
}
