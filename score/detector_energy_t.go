package score

import "math"

var _ = register(Detector{
	Name:    "energy_t",
	Summary: "Energy at a temperature T (option temperature), with the factor T kept.",
	Formula: "-T logsumexp(z/T)",
	Source:  "Liu et al. 2020",
	Needs:   NeedsLogits,
	Score: func(s *Sample, o Options) (float64, string) {
		if s.NoDensity != "" {
			return math.NaN(), s.NoDensity
		}
		t := o.temperature()
		if v := -t * LogSumExpAt(s.Logits, t); !math.IsNaN(v) {
			return v, ""
		}
		pred, _ := Argmax(s.Logits)
		return math.NaN(), softmaxReason(s.Logits, pred, t)
	},
})
