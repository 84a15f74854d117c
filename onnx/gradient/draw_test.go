package gradient

import (
	"math"
	"math/rand/v2"
)

// scattered draws from [-2, 2] so that neighbours in the sequence lie far apart: n draws in a row differ by more than
// 1/n, so that none of them overtakes another one in a step.
func scattered() func(*rand.Rand) float64 {
	n := 0.0
	return func(*rand.Rand) float64 {
		n++
		_, frac := math.Modf(n * math.Phi)
		return 4*frac - 2
	}
}

// someZeros is 0 now and then, and otherwise not near it.
func someZeros(rng *rand.Rand) float64 {
	if rng.IntN(3) == 0 {
		return 0
	}
	return steady(rng)
}
