package gradient

import "testing"

func TestExpand(t *testing.T) {
	for _, k := range []struct{ from, to []int64 }{
		{[]int64{2, 3}, []int64{2, 3}}, {[]int64{2, 1}, []int64{2, 3}}, {[]int64{3}, []int64{2, 3}}, {[]int64{3, 1}, []int64{2, 1, 4}}, {[]int64{2, 3}, []int64{1}}, {[]int64{}, []int64{2, 2}},
	} {
		checkJacobian(t, jacobianCase{op: "Expand", shapes: [][]int64{k.from}, ints: [][]int64{k.to}})
	}
}
