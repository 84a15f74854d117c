package score

var _ = register(Detector{
	Name:    "entropy",
	Summary: "Entropy of the softmax, in nats.",
	Formula: "logsumexp(z) - sum_k p_k z_k",
	Source:  "Shannon 1948",
	Needs:   NeedsLogits,
	Score:   fromRow(func(r Row) float64 { return r.Entropy }),
})
