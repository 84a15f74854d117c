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
	"slices"
	"sync"

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

// Engine computes parameter gradients. It is for use by one goroutine at a time.
type Engine struct {
	arch   model.Arch
	params model.Params // shared with the caller
	grads  model.Params // of the trained parameters, sums over the shards
	rows   int
	group  int // rows that share batch statistics, 1 where no layer takes any
	shards []*network
	logits []float32
	closed bool
}

// New makes an engine for batches of up to rows rows. It shares the values of p: a caller who changes them between
// calls changes the model. The rows are split as evenly as possible over the shards, each of which runs on a goroutine;
// gradients are added in the order of the shards. The last bits of a gradient depend on rows and shards, so both belong
// to the configuration and not to the machine. More shards than rows count as one a row.
//
// A network with batch normalisation takes statistics over every group of rows by itself, which must divide rows; shards
// are cut between groups. Gradients moves the running statistics in p, in the order of the groups. Without batch
// normalisation group has no meaning.
func New(a model.Arch, p model.Params, rows, shards, group int) (*Engine, error) {
	if rows < 1 || shards < 1 {
		return nil, fmt.Errorf("model %s: %d rows in %d shards, want at least 1 of each", a.Name, rows, shards)
	}
	if err := p.Check(a); err != nil {
		return nil, err
	}
	if !a.BatchNorms() {
		group = 1
	} else if group < 1 || rows%group != 0 {
		return nil, fmt.Errorf("model %s: batch normalisation over groups of %d rows, want a divisor of the %d rows of a batch", a.Name, group, rows)
	}
	grads, err := zeros(a)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		arch: a, params: slices.Clone(p), grads: grads, rows: rows, group: group,
		logits: make([]float32, rows*a.Classes),
	}
	groups := rows / group
	shards = min(shards, groups)
	for i := range shards {
		net, err := lower(a, e.params, (groups+shards-1-i)/shards*group, group, paramGrads)
		if err != nil {
			return nil, errors.Join(err, e.Close())
		}
		e.shards = append(e.shards, net)
	}
	return e, nil
}

// zeros are gradients of the trained parameters.
func zeros(a model.Arch) (model.Params, error) {
	specs, err := a.Params()
	if err != nil {
		return nil, err
	}
	var grads model.Params
	for _, s := range specs {
		if !s.State {
			grads = append(grads, model.Tensor{Name: s.Name, Shape: s.Shape, Data: make([]float32, s.Size())})
		}
	}
	if len(grads) == 0 {
		return nil, fmt.Errorf("model %s has no parameters to train", a.Name)
	}
	return grads, nil
}

// Gradients implements train.Engine for batches of 1 to rows rows; fewer than rows are filled up with rows of weight
// zero. With batch normalisation they must be whole groups.
func (e *Engine) Gradients(b Batch) (logits []float32, err error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
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
		return nil, fmt.Errorf("model %s: %w", e.arch.Name, err)
	}
	e.updateNorms(n)
	return e.logits[:n*e.arch.Classes], nil
}

func (e *Engine) checkBatch(b Batch) (rows int, err error) {
	size, k := model.Size(e.arch.Input), e.arch.Classes
	n := len(b.Alpha)
	if n < 1 || n > e.rows {
		return 0, fmt.Errorf("model %s: batch of %d rows, want 1 to %d", e.arch.Name, n, e.rows)
	}
	if n%e.group != 0 {
		return 0, fmt.Errorf("model %s: batch of %d rows, want whole groups of %d for batch normalisation", e.arch.Name, n, e.group)
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

// updateNorms moves the running statistics by those of a batch of n rows. Groups that only fill the batch up have none.
func (e *Engine) updateNorms(n int) {
	for _, net := range e.shards {
		groups := min(n, net.rows) / e.group
		n -= groups * e.group
		for _, b := range net.norms {
			b.update(groups)
		}
	}
}

// Grads implements train.Engine.
func (e *Engine) Grads() model.Params { return e.grads }

// Close releases the graphs. The engine is of no use afterwards; a second Close does nothing.
func (e *Engine) Close() error {
	var errs []error
	for _, net := range e.shards {
		errs = append(errs, net.machine.Close())
	}
	e.shards, e.closed = nil, true
	return errors.Join(errs...)
}

func (e *Engine) usable() error {
	if e.closed {
		return fmt.Errorf("model %s: the engine is closed", e.arch.Name)
	}
	return nil
}
