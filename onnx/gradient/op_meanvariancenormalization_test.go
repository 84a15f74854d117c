package gradient

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestMeanVarianceNormalization(t *testing.T) {
	// The steps are large in single precision, so the deviation is.
	near := scattered()
	far := func(rng *rand.Rand) float64 { return 4 * near(rng) }
	for _, opset := range []int64{9, 13, 18} {
		for _, axes := range [][]int64{nil, {0, 1, 2, 3}, {1, 2}, {2}} {
			var attrs []*onnxpb.AttributeProto
			if axes != nil {
				attrs = append(attrs, ir.Ints("axes", axes...))
			}
			k := jacobianCase{
				op: "MeanVarianceNormalization", name: fmt.Sprintf("opset %d axes %v ", opset, axes), opset: opset, shapes: [][]int64{{2, 2, 3, 1}},
				attrs: attrs, draw: far, single: true, static: opset < 13,
			}
			checkJacobian(t, k)
			if axes == nil && opset > 9 {
				k.name, k.dims = "batch "+k.name, [][]int64{{-1, 2, 3, 1}}
				checkJacobian(t, k)
			}
		}
	}
}
