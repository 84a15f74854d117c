package gradient

import "testing"

// pairings are the ways in which two shapes broadcast: equal, 1 against n on either side, missing leading axes,
// scalars, both at once, and an axis of size 1 that is not repeated.
var pairings = [][][]int64{
	{{2, 3}, {2, 3}}, {{2, 3}, {1, 3}}, {{2, 1}, {2, 3}}, {{3}, {2, 3}}, {{2, 3, 2}, {3, 1}}, {{}, {2, 3}}, {{2, 3}, {}},
	{{2, 1, 2}, {1, 3, 1}}, {{1, 3}, {2, 1}}, {{1, 2}, {1, 2}}, {{1}, {2, 2}}, {{}, {}},
}

func checkPairings(t *testing.T, op string) {
	t.Helper()
	for _, p := range pairings {
		checkJacobian(t, jacobianCase{op: op, shapes: p, draw: steady})
	}
	checkJacobian(t, jacobianCase{op: op, name: "batch", shapes: [][]int64{{4, 3}, {1, 3}}, draw: steady, dims: [][]int64{{-1, 3}, {1, 3}}})
}

func TestAdd(t *testing.T) { checkPairings(t, "Add") }
func TestSub(t *testing.T) { checkPairings(t, "Sub") }

func TestSum(t *testing.T) {
	checkJacobian(t,
		jacobianCase{op: "Sum", shapes: [][]int64{{2, 3}}},
		jacobianCase{op: "Sum", shapes: [][]int64{{2, 3}, {3}, {2, 1}}},
	)
}
