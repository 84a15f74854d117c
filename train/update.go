package train

import (
	"math"

	"github.com/jempipe/jempipe/model"
)

// gradientNorm is the Euclidean norm over all gradients, in float64. It is NaN or infinite where a gradient is not finite.
func gradientNorm(grads model.Params) float64 {
	var sum float64
	for _, g := range grads {
		for _, v := range g.Data {
			sum += float64(v) * float64(v)
		}
	}
	return math.Sqrt(sum)
}

// scale multiplies all gradients.
func scale(grads model.Params, f float64) {
	for _, g := range grads {
		for i, v := range g.Data {
			g.Data[i] = float32(float64(v) * f)
		}
	}
}

// forget clears all gradients.
func forget(grads model.Params) {
	for _, g := range grads {
		clear(g.Data)
	}
}
