// Package gorgonia trains a model with gorgonia: it lowers an architecture to a gorgonia graph, has gorgonia
// differentiate and run it, and updates the parameters with gorgonia's solvers.
//
// The layers are operators of this package (kernel) rather than gorgonia's own, which allocate every value anew in
// each run, compute gradients that nobody asked for, and add floats in an order that depends on where memory happens
// to lie. The graph, its differentiation, the machine that runs it and the solvers are gorgonia's.
//
// Equal inputs give equal bits: work is split by the number of shards and by fixed block sizes only, never by the
// number of cores, and each sum has one order.
package gorgonia

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	G "gorgonia.org/gorgonia"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/train"
)

// Batch is one set of rows with per-row loss weights. The loss is
//
//	sum_r Alpha_r*lse_r + Beta_r*lse_r^2 + sum_k Gamma_rk*z_rk
//
// with the logits z and lse_r = log(sum_k exp(z_rk)). Every term of the JEM objective is such a sum: cross-entropy of
// weight w has Alpha w and Gamma -w at the label; the energy of a sample with weight w has Alpha -w; its square, the
// energy regulariser, Beta w. All share one pass over the rows.
type Batch = train.Batch

var _ train.Engine = (*Engine)(nil)

// Engine computes parameter gradients and updates parameters. It is for use by one goroutine at a time.
type Engine struct {
	arch   model.Arch
	params model.Params // shared with the caller
	grads  model.Params // sums over the shards
	rows   int
	shards []*network
	logits []float32
	config Solver
	solver G.Solver
	model  []G.ValueGrad
	fresh  bool // grads belong to a batch and wait for Step
	closed bool
}

// New makes an engine for batches of up to rows rows. It shares the values of p: Step updates them in place, and a
// caller who changes them between calls changes the model. The rows are split as evenly as possible over the shards,
// each of which runs on a goroutine; gradients are added in the order of the shards. The last bits of a gradient
// depend on rows and shards, so both belong to the configuration and not to the machine. More shards than rows
// count as one a row.
func New(a model.Arch, p model.Params, rows, shards int, s Solver) (*Engine, error) {
	if err := checkSolver(s); err != nil {
		return nil, err
	}
	if rows < 1 || shards < 1 {
		return nil, fmt.Errorf("model %s: %d rows in %d shards, want at least 1 of each", a.Name, rows, shards)
	}
	if err := p.Check(a); err != nil {
		return nil, err
	}
	if len(p) == 0 {
		return nil, fmt.Errorf("model %s has no parameters to train", a.Name)
	}
	shards = min(shards, rows)
	e := &Engine{
		arch: a, params: slices.Clone(p), grads: p.Clone(), rows: rows,
		logits: make([]float32, rows*a.Classes), config: s, solver: newSolver(s),
	}
	e.zero()
	e.model = weights(e.params, e.grads)
	for i := range shards {
		net, err := lower(a, e.params, (rows+shards-1-i)/shards, paramGrads)
		if err != nil {
			return nil, errors.Join(err, e.Close())
		}
		e.shards = append(e.shards, net)
	}
	return e, nil
}

// Gradients runs forward and backward pass over a batch of 1 to rows rows; fewer than rows are filled up with rows of
// weight zero. It gives the logits, [N,K], valid until the next call, and keeps the gradients, which replace those of
// an earlier call. Values that are not finite are no error: see GradientNorm. After an error the gradients are zero.
func (e *Engine) Gradients(b Batch) (logits []float32, err error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	e.zero()
	n, err := e.checkBatch(b)
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(e.shards))
	var wg sync.WaitGroup
	row := 0
	for i, net := range e.shards {
		lo, hi := min(row, n), min(row+net.rows, n)
		row += net.rows
		wg.Go(func() { errs[i] = net.gradients(slice(b, lo, hi, net.size, net.classes)) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("model %s: %w", e.arch.Name, err)
	}
	if err := e.collect(); err != nil {
		e.zero()
		return nil, fmt.Errorf("model %s: %w", e.arch.Name, err)
	}
	e.fresh = true
	return e.logits[:n*e.arch.Classes], nil
}

func (e *Engine) checkBatch(b Batch) (rows int, err error) {
	size, k := model.Size(e.arch.Input), e.arch.Classes
	n := len(b.Alpha)
	if n < 1 || n > e.rows {
		return 0, fmt.Errorf("model %s: batch of %d rows, want 1 to %d", e.arch.Name, n, e.rows)
	}
	for _, c := range []struct {
		name        string
		found, want int
	}{{"x", len(b.X), n * size}, {"beta", len(b.Beta), n}, {"gamma", len(b.Gamma), n * k}} {
		if c.found != c.want {
			return 0, fmt.Errorf("model %s: batch of %d rows has %d values of %s, want %d", e.arch.Name, n, c.found, c.name, c.want)
		}
	}
	return n, nil
}

// slice is the rows from lo to hi.
func slice(b Batch, lo, hi, size, k int) Batch {
	return Batch{X: b.X[lo*size : hi*size], Alpha: b.Alpha[lo:hi], Beta: b.Beta[lo:hi], Gamma: b.Gamma[lo*k : hi*k]}
}

// gradients runs the network over a batch of at most its rows.
func (net *network) gradients(b Batch) (err error) {
	defer recovered(&err)
	net.load(b.X)
	for _, c := range []struct{ to, from []float32 }{{net.alpha, b.Alpha}, {net.beta, b.Beta}, {net.gamma, b.Gamma}} {
		clear(c.to[copy(c.to, c.from):])
	}
	return net.run()
}

// collect adds up the gradients of the shards, in their order, and joins their logits.
func (e *Engine) collect() error {
	row := 0
	for _, net := range e.shards {
		z, err := values(net.logits, net.rows*net.classes)
		if err != nil {
			return err
		}
		copy(e.logits[row*net.classes:], z)
		row += net.rows
		for i, g := range net.grads {
			sum := e.grads[i].Data
			part, err := values(g, len(sum))
			if err != nil {
				return err
			}
			for j, v := range part {
				sum[j] += v
			}
		}
	}
	return nil
}

// GradientNorm is the Euclidean norm over all gradients, in float64. It is NaN or infinite if a gradient is not
// finite, and 0 if there are none.
func (e *Engine) GradientNorm() float64 {
	var sum float64
	for _, g := range e.grads {
		for _, v := range g.Data {
			sum += float64(v) * float64(v)
		}
	}
	return math.Sqrt(sum)
}

// ScaleGradients multiplies all gradients by f, as clipping by norm does.
func (e *Engine) ScaleGradients(f float64) {
	for _, g := range e.grads {
		for i, v := range g.Data {
			g.Data[i] = float32(float64(v) * f)
		}
	}
}

// Step updates the parameters with the gradients of the last batch at learning rate lr, and clears the gradients. It
// is an error to call it twice for one batch. After an error of the solver the parameters are undefined.
func (e *Engine) Step(lr float64) (err error) {
	defer recovered(&err)
	if err := e.usable(); err != nil {
		return err
	}
	if !e.fresh {
		return fmt.Errorf("model %s: step without gradients of a batch", e.arch.Name)
	}
	defer e.zero()
	if math.IsNaN(lr) || math.IsInf(lr, 0) || lr < 0 {
		return fmt.Errorf("model %s: learning rate %v, want a finite number of at least 0", e.arch.Name, lr)
	}
	// Not gorgonia's WithL2Reg: its Momentum adds the decayed velocity in place of the decayed weight.
	if d := float32(e.config.WeightDecay); d != 0 {
		for i, g := range e.grads {
			for j, w := range e.params[i].Data {
				g.Data[j] += d * w
			}
		}
	}
	G.WithLearnRate(lr)(e.solver)
	if err := e.solver.Step(e.model); err != nil {
		return fmt.Errorf("model %s: solver %s: %w", e.arch.Name, e.config.Name, err)
	}
	return nil
}

// Grads copies the gradients, under the names and shapes of the parameters.
func (e *Engine) Grads() model.Params { return e.grads.Clone() }

// Close releases the graphs. The engine is of no use afterwards; a second Close does nothing.
func (e *Engine) Close() error {
	var errs []error
	for _, net := range e.shards {
		errs = append(errs, net.machine.Close())
	}
	e.shards, e.closed, e.fresh = nil, true, false
	return errors.Join(errs...)
}

func (e *Engine) usable() error {
	if e.closed {
		return fmt.Errorf("model %s: the engine is closed", e.arch.Name)
	}
	return nil
}

// zero clears the gradients.
func (e *Engine) zero() {
	for _, g := range e.grads {
		clear(g.Data)
	}
	e.fresh = false
}
