package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestGroupNormalization(t *testing.T) {
	for _, opset := range []int64{18, 21} {
		for _, groups := range []int64{1, 2, 4} {
			owners := int64(4)
			if opset < 21 {
				owners = groups
			}
			attrs := []*onnxpb.AttributeProto{ir.Int("num_groups", groups), ir.Float("epsilon", 2)}
			for _, single := range []bool{false, true} {
				if single && groups == 1 {
					continue
				}
				k := jacobianCase{
					op: "GroupNormalization", name: fmt.Sprintf("opset %d groups %d single %v ", opset, groups, single), opset: opset,
					shapes: [][]int64{{2, 4, 3}, {owners}, {owners}}, attrs: attrs, single: single,
				}
				if opset == 21 && !single {
					k.attrs = append(k.attrs, ir.Int("stash_type", int64(ir.Float64)))
				}
				checkJacobian(t, k)
				if groups == 2 {
					k.name, k.dims = "batch "+k.name, [][]int64{{-1, 4, 3}, {owners}, {owners}}
					checkJacobian(t, k)
					k.name, k.dims, k.build = "rank unknown "+k.name, nil, k.unranked
					checkJacobian(t, k)
				}
			}
		}
	}
	checkJacobian(t, jacobianCase{
		op: "GroupNormalization", name: "images", opset: 21, shapes: [][]int64{{1, 6, 2, 1}, {6}, {6}}, attrs: []*onnxpb.AttributeProto{ir.Int("num_groups", 3), ir.Float("epsilon", 2)}, single: true,
	})
}
