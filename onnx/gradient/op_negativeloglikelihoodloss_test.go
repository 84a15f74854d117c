package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// lossCases are the combinations of places, weights, reduction and ignored targets. There are three classes.
func lossCases(op string) []jacobianCase {
	var cases []jacobianCase
	for i, places := range [][]int64{nil, {2, 2}} {
		x := append([]int64{2, 3}, places...)
		batch := append([]int64{-1, 3}, places...)
		targets := ir.Int64Tensor("targets", []int64{1, 0, 2, 2, 1, 0, 1, 1}[:2*count(places)]...)
		targets.Dims = append([]int64{2}, places...)
		for _, weighted := range []bool{false, true} {
			for _, reduction := range []string{"none", "sum", "mean"} {
				for _, ignore := range []int64{0, -1} { // 0: no attribute
					if i > 0 && reduction != "mean" {
						continue
					}
					k := jacobianCase{
						op: op, name: fmt.Sprintf("%s weighted %v ignore %d ", reduction, weighted, ignore), draw: positive,
						shapes: [][]int64{x}, dims: [][]int64{batch}, args: []string{"x0", "targets"}, tensors: []*onnxpb.TensorProto{targets},
						attrs: []*onnxpb.AttributeProto{ir.String("reduction", reduction)},
					}
					if weighted {
						k.shapes, k.dims, k.args = append(k.shapes, []int64{3}), append(k.dims, []int64{3}), append(k.args, "x1")
					}
					if ignore != 0 {
						k.attrs = append(k.attrs, ir.Int("ignore_index", ignore))
					}
					cases = append(cases, k)
				}
			}
		}
	}
	return cases
}

func TestNegativeLogLikelihoodLoss(t *testing.T) {
	checkJacobian(t, lossCases("NegativeLogLikelihoodLoss")...)
}
