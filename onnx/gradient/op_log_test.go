package gradient

import "testing"

func TestLog(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Log", shapes: [][]int64{{2, 3}}, draw: positive},
		jacobianCase{op: "Log", shapes: [][]int64{{}}, draw: positive},
	)
}
