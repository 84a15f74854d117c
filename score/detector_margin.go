package score

import "math"

var _ = register(Detector{
	Name:    "margin",
	Summary: "Difference of the two largest probabilities, negated.",
	Formula: "-(p_(1) - p_(2))",
	Source:  "Scheffer, Decomain and Wrobel 2001",
	Needs:   NeedsLogits,
	Score: func(s *Sample, _ Options) (float64, string) {
		r := s.Row()
		switch {
		case r.Reason != "":
			return math.NaN(), r.Reason
		case len(s.Logits) < 2:
			return math.NaN(), ReasonOneLogit
		}
		return -r.Margin, ""
	},
})
