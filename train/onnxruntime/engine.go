// Package onnxruntime computes the parameter gradients of training in ONNX Runtime, from a graph that onnx/gradient
// builds once.
//
// Equal inputs give equal bits on one machine: the rows of a batch are split by the number of shards only, each shard is
// computed by one thread, and gradients are added in the order of the shards.
package onnxruntime

import (
	"errors"
	"fmt"
	"sync"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/lower"
	"github.com/jempipe/jempipe/onnx/refit"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/train"
)

var _ train.Engine = (*Engine)(nil)

// Engine gives parameter gradients. It is for use by one goroutine at a time.
type Engine struct {
	arch   model.Arch
	grads  model.Params // of the trained parameters, in the order of Arch.Params
	rows   int
	group  int         // rows that share batch statistics, 1 where no layer takes any
	norms  []batchNorm // batch normalisations, in layer order
	net    *refit.Model
	call   *ort.Call
	shards []*shard
	logits []float32
	closed bool
}

// New makes an engine for batches of up to rows rows. It shares the values of p: a caller who changes them between
// calls changes the model. The rows are split as evenly as possible over the shards, each of which runs on a goroutine;
// more shards than rows count as one a row. The last bits of a gradient depend on rows and shards, so both belong to the
// configuration and not to the machine.
//
// A network with batch normalisation takes statistics over every group of rows by itself, which must divide rows; shards
// are cut between groups. Gradients moves the running statistics in p, in the order of the groups. Without batch
// normalisation group has no meaning.
func New(rt *ort.Runtime, a model.Arch, p model.Params, rows, shards, group int) (*Engine, error) {
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
	groups := rows / group
	shards = min(shards, groups)
	e := &Engine{arch: a, rows: rows, group: group, logits: make([]float32, rows*a.Classes)}
	if err := e.open(rt, p); err != nil {
		return nil, errors.Join(fmt.Errorf("model %s: %w", a.Name, err), e.Close())
	}
	for i := range shards {
		s, err := e.newShard((groups+shards-1-i)/shards*group, e.net.Tensors())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("model %s: %w", a.Name, err), e.Close())
		}
		e.shards = append(e.shards, s)
	}
	return e, nil
}

func (e *Engine) open(rt *ort.Runtime, p model.Params) error {
	options := lower.Options{Refit: true}
	if e.arch.BatchNorms() {
		options.BatchGroup = e.group
	}
	if err := e.gradientsOf(p); err != nil {
		return err
	}
	graph, err := lower.Loss(e.arch, p, options)
	if err != nil {
		return err
	}
	e.net, err = refit.Open(rt, graph, p, ort.SessionOptions{Threads: 1, Name: "gradients of " + e.arch.Name})
	if err != nil {
		return err
	}
	outputs := []string{lower.OutputLogits}
	for _, g := range e.grads {
		outputs = append(outputs, lower.GradientOf(g.Name))
	}
	if options.BatchGroup > 0 {
		stats, err := lower.BatchStatistics(e.arch, e.group)
		if err != nil {
			return err
		}
		for _, s := range stats {
			e.norms = append(e.norms, newBatchNorm(s, p))
			outputs = append(outputs, s.Mean, s.Variance)
		}
	}
	e.call, err = e.net.Session().Bind(append([]string{lower.InputX, lower.InputAlpha, lower.InputBeta, lower.InputGamma}, e.net.Names()...), outputs)
	return err
}

// gradientsOf makes the gradients of the trained parameters, all zero.
func (e *Engine) gradientsOf(p model.Params) error {
	specs, err := e.arch.Params()
	if err != nil {
		return err
	}
	for i, s := range specs {
		if !s.State {
			e.grads = append(e.grads, p[i:i+1].Clone()...)
		}
	}
	for _, g := range e.grads {
		clear(g.Data)
	}
	if len(e.grads) == 0 {
		return errors.New("it has no parameters to train")
	}
	return nil
}

// Plain says why the weights of the graph are not in the layout that is fastest; empty where they are.
func (e *Engine) Plain() string { return e.net.Plain() }

// Gradients implements train.Engine for batches of 1 to rows rows; fewer than rows are filled up with rows of weight
// zero. With batch normalisation they must be whole groups. After an error Grads is as before.
func (e *Engine) Gradients(b train.Batch) (logits []float32, err error) {
	if e.closed {
		return nil, fmt.Errorf("model %s: the engine is closed", e.arch.Name)
	}
	size, k := e.arch.Size(), e.arch.Classes
	n, err := b.Check(e.rows, size, k)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", e.arch.Name, err)
	}
	if n%e.group != 0 {
		return nil, fmt.Errorf("model %s: batch of %d rows, want whole groups of %d for batch normalisation", e.arch.Name, n, e.group)
	}
	e.net.Update()
	errs := make([]error, len(e.shards))
	var wg sync.WaitGroup
	row := 0
	for i, s := range e.shards {
		part := b.Slice(min(row, n), min(row+s.rows, n), size, k)
		row += s.rows
		wg.Go(func() { errs[i] = s.run(e.call, part) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("model %s: %w", e.arch.Name, err)
	}
	e.collect()
	e.updateNorms(n)
	return e.logits[:n*k], nil
}

// collect adds up the gradients of the shards, in their order, and joins their logits.
func (e *Engine) collect() {
	z := e.logits
	for _, s := range e.shards {
		z = z[copy(z, s.out[0].Data()):]
		for i, g := range e.grads {
			for j, v := range s.out[1+i].Data() {
				g.Data[j] += v
			}
		}
	}
}

// Grads are the gradients, under the names and in the shapes of the trained parameters, in the order of Arch.Params.
// The caller may scale and clear them.
func (e *Engine) Grads() model.Params { return e.grads }

// Close frees sessions and tensors. The engine is of no use afterwards; a second Close does nothing.
func (e *Engine) Close() error {
	e.closed = true
	for _, s := range e.shards {
		s.close()
	}
	e.shards = nil
	if e.net == nil {
		return nil
	}
	return e.net.Close()
}
