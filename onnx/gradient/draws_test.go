package gradient

import (
	"math"
	"math/rand/v2"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// boolTensor is a constant of truth values, 0 or 1 each.
func boolTensor(name string, shape []int64, values ...byte) *onnxpb.TensorProto {
	return &onnxpb.TensorProto{Name: name, DataType: ir.Bool, Dims: shape, RawData: values}
}

// within draws from [lo, hi], at least 0.1 away from each of the kinks.
func within(lo, hi float64, kinks ...float64) func(*rand.Rand) float64 {
	return func(rng *rand.Rand) float64 {
	again:
		v := lo + (hi-lo)*rng.Float64()
		for _, k := range kinks {
			if math.Abs(v-k) < 0.1 {
				goto again
			}
		}
		return v
	}
}

// differing gives numbers in [-2, 2] of which any sixty in a row differ.
func differing() func(*rand.Rand) float64 {
	n := 0.0
	return func(*rand.Rand) float64 {
		n++
		_, frac := math.Modf(n * 0.6180339887)
		return 4*frac - 2
	}
}
