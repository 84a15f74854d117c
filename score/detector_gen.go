package score

import "math"

const genGamma = 0.1

var _ = register(Detector{
	Name:    "gen",
	Summary: "Generalised entropy over all classes, gamma 0.1.",
	Formula: "sum_k p_k^0.1 (1 - p_k)^0.1",
	Source:  "Liu, Lochman and Zach 2023",
	Needs:   NeedsLogits,
	Score: func(s *Sample, _ Options) (float64, string) {
		r := s.Row()
		if r.Reason != "" {
			return math.NaN(), r.Reason
		}
		g := 0.0
		for k, z := range s.Logits {
			p := math.Exp(float64(z) - r.LSE)
			q := 1 - p
			if k == r.Pred { // 1 - p of the largest class cancels; the rest is known exactly
				p, q = r.Confidence, expRest(s.Logits, r.Pred, 1)*r.Confidence
			}
			g += math.Pow(p*q, genGamma)
		}
		return g, ""
	},
})
