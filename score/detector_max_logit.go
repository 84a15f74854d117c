package score

var _ = register(Detector{
	Name:    "max_logit",
	Summary: "Largest logit, negated; on a JEM this is -max_y log p(x,y) up to a constant.",
	Formula: "-max_k z_k",
	Source:  "Hendrycks et al. 2022",
	Needs:   NeedsLogits,
	Score:   fromLimit(func(r Row) float64 { return -r.Max }),
})
