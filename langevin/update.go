package langevin

import "math"

// update is the numbers of one update in float32, ready for the inner loop.
type update struct {
	step, std   float32
	clip        uint32 // bits of the bound on a gradient element
	lo, hi      float32
	symmetrical bool // lo = -hi
}

func (s *Sampler) update(k int) update {
	u := update{step: s.steps[k], std: s.stds[k], clip: math.Float32bits(float32(math.Inf(1)))}
	if s.rule.GradClip > 0 {
		u.clip = math.Float32bits(float32(s.rule.GradClip))
	}
	u.lo, u.hi = float32(math.Inf(-1)), float32(math.Inf(1))
	if s.rule.Clamp {
		u.lo, u.hi = s.lo, s.hi
	}
	u.symmetrical = u.lo == -u.hi
	return u
}

// move makes one update of all states: x <- clamp(x + step clip(g) + std z), rounded after each operation, so that it is
// the same on every processor and in an ONNX graph. A bound that is symmetrical about 0 is the smaller of two
// magnitudes as integers: half the time of min and max, whose rules for NaN cost as much as the rest, and a sixth of
// that of branches, which cannot be foretold.
func move(x, g, z []float32, u update) {
	g, z = g[:len(x)], z[:len(x)]
	if u.symmetrical {
		limit := math.Float32bits(u.hi)
		for j := range x {
			v := x[j] + float32(u.step*bound(g[j], u.clip))
			x[j] = bound(v+float32(u.std*z[j]), limit)
		}
		return
	}
	for j := range x {
		v := x[j] + float32(u.step*bound(g[j], u.clip))
		x[j] = min(max(v+float32(u.std*z[j]), u.lo), u.hi)
	}
}

// bound cuts v to [-l, l], of which limit is the bits.
func bound(v float32, limit uint32) float32 {
	b := math.Float32bits(v)
	return math.Float32frombits(min(b&^(1<<31), limit) | b&(1<<31))
}

// finite says whether all values are: only then is each of them 0 when multiplied by 0.
func finite(x []float32) bool {
	var a, b float32
	for len(x) >= 2 {
		a += float32(x[0] * 0)
		b += float32(x[1] * 0)
		x = x[2:]
	}
	if len(x) == 1 {
		a += float32(x[0] * 0)
	}
	return a+b == 0
}
