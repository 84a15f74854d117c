package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestInstanceNormalization(t *testing.T) {
	attrs := []*onnxpb.AttributeProto{ir.Float("epsilon", 2)}
	check := func(k jacobianCase) {
		k.op, k.attrs, k.single = "InstanceNormalization", attrs, true
		checkJacobian(t, k)
	}
	for _, shape := range [][]int64{{2, 3, 4}, {2, 3, 2, 2}, {1, 2, 2, 1, 3}} {
		check(jacobianCase{shapes: [][]int64{shape, {shape[1]}, {shape[1]}}})
	}
	for _, opset := range []int64{8, 11, 18, 22} {
		check(jacobianCase{name: fmt.Sprintf("opset %d ", opset), opset: opset, shapes: [][]int64{{2, 3, 2, 2}, {3}, {3}}, static: opset < 13})
	}
	check(jacobianCase{name: "batch", shapes: [][]int64{{2, 3, 2, 2}, {3}, {3}}, dims: [][]int64{{-1, 3, 2, 2}, {3}, {3}}})
	unranked := jacobianCase{op: "InstanceNormalization", name: "rank unknown", shapes: [][]int64{{2, 3, 2, 2}, {3}, {3}}, attrs: attrs}
	unranked.build = unranked.unranked
	check(unranked)
}
