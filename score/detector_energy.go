package score

var _ = register(Detector{
	Name:    "energy",
	Summary: "Energy of the classifier; on a JEM this is -log p(x) up to a constant.",
	Formula: "-logsumexp(z)",
	Source:  "Grathwohl et al. 2019; Liu et al. 2020",
	Needs:   NeedsLogits,
	Score:   fromDensity(Row.Energy),
})
