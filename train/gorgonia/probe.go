package gorgonia

import (
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/model"
)

// Forward computes the logits, [n,K], of n rows x, [n, arch.Input...] in model space. It builds a graph of its own in
// each call, and is meant for checks.
func Forward(a model.Arch, p model.Params, x []float32, n int) (logits []float32, err error) {
	logits, _, err = probe(a, p, x, n, onlyLogits)
	return logits, err
}

// InputGradient computes beside the logits the score of each row, d logsumexp f(x) / dx, [n, arch.Input...].
func InputGradient(a model.Arch, p model.Params, x []float32, n int) (logits, grad []float32, err error) {
	return probe(a, p, x, n, inputGrads)
}

func probe(a model.Arch, p model.Params, x []float32, n int, w want) (logits, grad []float32, err error) {
	net, err := lower(a, p, n, 0, w)
	if err != nil {
		return nil, nil, err
	}
	defer net.machine.Close()
	if len(x) != n*net.size {
		return nil, nil, fmt.Errorf("model %s: %d values of x for %d rows, want %d", a.Name, len(x), n, n*net.size)
	}
	net.load(x)
	for i := range net.alpha {
		net.alpha[i] = 1
	}
	if err := net.run(); err != nil {
		return nil, nil, fmt.Errorf("model %s: %w", a.Name, err)
	}
	z, err := values(net.logits, n*a.Classes)
	if err != nil || w == onlyLogits {
		return slices.Clone(z), nil, err
	}
	dx, err := values(net.grads[0], n*net.size)
	if err != nil {
		return nil, nil, err
	}
	grad = make([]float32, len(dx))
	swapAxes(dx, n, net.area, net.channels, grad)
	return slices.Clone(z), grad, nil
}
