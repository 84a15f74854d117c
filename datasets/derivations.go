package datasets

import "math"

func init() {
	deriveWith(derivation{name: "uniform_noise", draws: true, row: uniformNoise})
	deriveWith(derivation{name: "gaussian_noise", draws: true, keys: []string{"std"}, row: gaussianNoise})
	deriveWith(derivation{name: "pixel_shuffle", draws: true, moves: true, row: pixelShuffle})
	deriveWith(derivation{name: "inversion", moves: true, row: inversion})
	deriveWith(derivation{name: "interpolation", draws: true, keys: []string{"weight"}, row: interpolation})
}

// uniformNoise draws every value from the uniform distribution over [lo, hi].
func uniformNoise(b *block, i int, to []float32) {
	r := b.draw(i)
	for k := range to {
		to[k] = b.clamp(b.lo + (b.hi-b.lo)*r.Float64())
	}
}

// gaussianNoise draws every value from N(m, (std h)^2) with m the middle and h half the width of the range, and clamps
// it to the range.
func gaussianNoise(b *block, i int, to []float32) {
	r := b.draw(i)
	middle, half := (b.lo+b.hi)/2, (b.hi-b.lo)/2
	for k := range to {
		to[k] = b.clamp(middle + b.spec.Std*half*r.NormFloat64())
	}
}

// clamp moves a value into the range, also after rounding to float32.
func (b *block) clamp(v float64) float32 {
	f := float32(min(max(v, b.lo), b.hi))
	switch {
	case float64(f) < b.lo:
		f = math.Nextafter32(f, float32(math.Inf(1)))
	case float64(f) > b.hi:
		f = math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return f
}

// pixelShuffle permutes the values of the sample, a new permutation for each row (Fisher and Yates).
func pixelShuffle(b *block, i int, to []float32) {
	copy(to, b.of(i))
	b.draw(i).Shuffle(len(to), func(j, k int) { to[j], to[k] = to[k], to[j] })
}

// inversion gives lo + hi - x, the negative of a picture.
func inversion(b *block, i int, to []float32) {
	for k, v := range b.of(i) {
		to[k] = float32(b.lo + b.hi - float64(v))
	}
}

// interpolation gives weight x_i + (1 - weight) x_j with another good row j of the block, drawn uniformly; where row i is
// the only good one it stays as it is.
func interpolation(b *block, i int, to []float32) {
	x, y := b.of(i), b.of(b.partner(i))
	w := b.spec.Weight
	for k := range to {
		to[k] = float32(w*float64(x[k]) + (1-w)*float64(y[k]))
	}
}

// partner draws a good row of the block other than i.
func (b *block) partner(i int) int {
	others := 0
	for j, status := range b.rows.Status {
		if j != i && status == StatusOK {
			others++
		}
	}
	if others == 0 {
		return i
	}
	nth := b.draw(i).IntN(others)
	for j, status := range b.rows.Status {
		if j != i && status == StatusOK {
			if nth == 0 {
				return j
			}
			nth--
		}
	}
	return i
}
