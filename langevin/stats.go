package langevin

import "math"

// Stats says how a batch of chains moved. A number that is not defined is NaN.
type Stats struct {
	Displacement float64 // mean over chains of the root-mean-square change of an element between start and end
	// EnergyDrop is the mean over chains of the log density of the last evaluated state less that of the start: how far
	// the chains have fallen in energy. The last evaluated state is the end where there was a visit or mala, else the
	// state before the last update.
	EnergyDrop float64
	MaxAbsLogP float64 // largest |log density| met
	AtBounds   float64 // share of the elements of the final states at or beyond the ends of Rule.Range; NaN without a range
	Acceptance float64 // share of the proposals of mala that were accepted; NaN without mala
}

func (s *Sampler) stats(shares []share, c Chains) Stats {
	nan := math.NaN()
	st := Stats{AtBounds: nan, Acceptance: nan}
	accepted, proposed := 0, 0
	for i := range shares {
		w := &shares[i]
		st.MaxAbsLogP = max(st.MaxAbsLogP, w.maxAbs)
		accepted, proposed = accepted+w.accepted, proposed+w.proposed
		for r, f := range w.start {
			st.EnergyDrop += w.logp[r] - f
		}
	}
	n := float64(len(c.Keys))
	st.EnergyDrop /= n
	if proposed > 0 {
		st.Acceptance = float64(accepted) / float64(proposed)
	}
	for r := range c.Keys {
		st.Displacement += rms(c.X[r*s.dim:(r+1)*s.dim], s.start[r*s.dim:(r+1)*s.dim])
	}
	st.Displacement /= n
	if len(s.rule.Range) == 2 {
		st.AtBounds = AtBounds(c.X, s.rule.Range[0], s.rule.Range[1])
	}
	return st
}

// rms is the root-mean-square difference of two states.
func rms(x, y []float32) float64 {
	var sq float64
	for j := range x {
		d := float64(x[j]) - float64(y[j])
		sq += d * d
	}
	return math.Sqrt(sq / float64(len(x)))
}

// AtBounds is the share of elements at or beyond the ends of a range: saturated pixels. It is 0 for no elements.
func AtBounds(x []float32, lo, hi float64) float64 {
	at, l, h := 0, float32(lo), float32(hi)
	for _, v := range x {
		if v <= l || v >= h {
			at++
		}
	}
	return float64(at) / float64(max(len(x), 1))
}
