package score

import "math"

var _ = register(Detector{
	Name:    "approximate_mass",
	Summary: "Norm of the input gradient of the log density: large where a small step changes the density much.",
	Formula: "|| d logsumexp(f(x)) / dx ||_2, one gradient a sample",
	Source:  "Grathwohl et al. 2019",
	Needs:   NeedsScoreNorm,
	Score: func(s *Sample, _ Options) (float64, string) {
		switch {
		case math.IsNaN(s.ScoreNorm):
			return math.NaN(), ReasonNoScoreNorm
		case s.ScoreNorm < 0:
			return math.NaN(), ReasonBadScoreNorm
		}
		return s.ScoreNorm, ""
	},
})
