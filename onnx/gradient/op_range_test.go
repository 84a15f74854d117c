package gradient

import (
	"math/rand/v2"
	"testing"
)

// The range goes up from about 0 to about 10 in steps of about 3: it has four elements whatever is drawn.
func TestRange(t *testing.T) {
	values, next := []float64{0.25, 10.5, 3}, 0
	checkJacobian(t, jacobianCase{op: "Range", shapes: [][]int64{{}, {}, {}}, draw: func(rng *rand.Rand) float64 {
		next++
		return values[(next-1)%3] + 0.1*rng.Float64()
	}})
}
