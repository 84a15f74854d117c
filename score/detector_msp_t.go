package score

import "math"

var _ = register(Detector{
	Name:    "msp_t",
	Summary: "Maximum softmax probability at a temperature T (option temperature), negated.",
	Formula: "-max_k softmax(z/T)_k",
	Source:  "Hendrycks and Gimpel 2017, with the temperature of Guo et al. 2017",
	Needs:   NeedsLogits,
	Score: func(s *Sample, o Options) (float64, string) {
		r := DescribeAt(s.Logits, o.temperature(), nil)
		if r.Reason != "" {
			return math.NaN(), r.Reason
		}
		return -r.Confidence, ""
	},
})
