package score

import "math"

// AUTC is the area under the threshold curve (Humblot-Renaux, Escalera and Moeslund 2023) of scores scaled to [0,1] by
// the smallest and largest score lo and hi of both groups: (mean s_id + 1 - mean s_ood)/2, lower is better. A single
// outlier changes it, so it is to be kept with lo and hi. It is undefined when all scores are equal or one is infinite.
func (r *Ranking) AUTC() (m Metric, lo, hi float64) {
	if reason := r.reason(); reason != "" {
		return undefined(reason), nan, nan
	}
	lo = keyValue(min(r.id.keys[0], r.ood.keys[0]))
	hi = keyValue(max(r.id.keys[r.n-1], r.ood.keys[r.p-1]))
	switch width := hi - lo; {
	case width == 0:
		return undefined(ReasonConstant), lo, hi
	case math.IsInf(width, 0) || width != width:
		return undefined(ReasonInfinite), lo, hi
	}
	scaledMean := func(s *Scores) float64 {
		var sum Sum
		for _, k := range s.keys {
			sum.Add((keyValue(k) - lo) / (hi - lo))
		}
		return sum.Mean(s.Len())
	}
	return defined((scaledMean(r.id) + 1 - scaledMean(r.ood)) / 2), lo, hi
}
