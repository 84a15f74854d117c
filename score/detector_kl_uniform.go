package score

import "math"

var _ = register(Detector{
	Name:    "kl_uniform",
	Summary: "Kullback-Leibler divergence of the uniform distribution from the softmax, negated.",
	Formula: "-(logsumexp(z) - mean(z) - ln K)",
	Source:  "Lee et al. 2018",
	Needs:   NeedsLogits,
	Score: func(s *Sample, _ Options) (float64, string) {
		r := s.Row()
		if r.Reason != "" {
			return math.NaN(), r.Reason
		}
		behind := 0.0 // sum of max - z, so that large logits do not cancel
		for _, z := range s.Logits {
			behind += r.Max - float64(z)
		}
		k := float64(len(s.Logits))
		return math.Log(k) - behind/k - math.Log1p(expRest(s.Logits, r.Pred, 1)), ""
	},
})
