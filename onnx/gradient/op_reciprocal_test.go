package gradient

import "testing"

func TestReciprocal(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Reciprocal", shapes: [][]int64{{2, 3}}, draw: steady},
		jacobianCase{op: "Reciprocal", shapes: [][]int64{{}}, draw: steady},
	)
}
