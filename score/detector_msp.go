package score

var _ = register(Detector{
	Name:    "msp",
	Summary: "Maximum softmax probability, negated.",
	Formula: "-max_k p_k",
	Source:  "Hendrycks and Gimpel 2017",
	Needs:   NeedsLogits,
	Score:   fromRow(func(r Row) float64 { return -r.Confidence }),
})
