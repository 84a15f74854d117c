package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func layerCases(op string, opset int64, bias bool) []jacobianCase {
	var cases []jacobianCase
	add := func(name string, shape, scale []int64, axis int64, change func(*jacobianCase)) {
		for _, single := range []bool{false, true} {
			k := jacobianCase{
				op: op, name: fmt.Sprintf("%s axis %d single %v ", name, axis, single), opset: opset, single: single,
				shapes: [][]int64{shape, scale}, attrs: []*onnxpb.AttributeProto{ir.Int("axis", axis), ir.Float("epsilon", 2)},
			}
			if bias {
				k.shapes = append(k.shapes, scale)
			}
			if change != nil {
				change(&k)
			}
			cases = append(cases, k)
		}
	}
	add("", []int64{2, 3, 2}, []int64{2}, -1, nil)
	add("", []int64{2, 3, 2}, []int64{3, 2}, 1, nil)
	add("", []int64{2, 3, 2}, []int64{3, 2}, -2, nil)
	add("", []int64{2, 3}, []int64{2, 3}, 0, nil)
	add("", []int64{2, 3}, []int64{3}, 1, nil)
	add("repeated scale", []int64{2, 3, 2}, []int64{3, 1}, 1, nil)
	add("batch", []int64{2, 3, 2}, []int64{2}, -1, func(k *jacobianCase) {
		k.dims = append([][]int64{{-1, 3, 2}}, k.shapes[1:]...)
	})
	add("rank unknown", []int64{2, 3, 2}, []int64{3, 2}, 1, func(k *jacobianCase) { k.build = k.unranked })
	return cases
}

func TestLayerNormalization(t *testing.T) {
	checkJacobian(t, layerCases("LayerNormalization", 17, true)...)
	checkJacobian(t, layerCases("LayerNormalization", 18, false)[:2]...)
}

func TestRMSNormalization(t *testing.T) {
	checkJacobian(t, layerCases("RMSNormalization", 23, false)...)
}

// The further outputs, which are in single precision always, carry gradients too, by themselves and together.
func TestLayerNormalizationStatistics(t *testing.T) {
	for _, names := range [][]string{{"mean"}, {"inverse"}, {"h", "mean", "inverse"}} {
		k := jacobianCase{
			op: "LayerNormalization", name: fmt.Sprint(names), single: true,
			shapes: [][]int64{{2, 3, 2}, {3, 2}}, dims: [][]int64{{-1, 3, 2}, {3, 2}},
			build: func(g *ir.Graph, args []string) {
				g.AddNamed("the_node", "LayerNormalization", args, []string{"h", "mean", "inverse"}, ir.Int("axis", 1), ir.Float("epsilon", 2))
				g.AddNamed("all", "Sum", names, []string{"y"})
			},
		}
		if len(names) == 1 {
			k.wrt = []int{0}
		}
		checkJacobian(t, k)
	}
}
