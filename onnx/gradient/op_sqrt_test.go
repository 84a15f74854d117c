package gradient

import "testing"

func TestSqrt(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Sqrt", shapes: [][]int64{{2, 3}}, draw: positive},
		jacobianCase{op: "Sqrt", shapes: [][]int64{{}}, draw: positive},
	)
}
