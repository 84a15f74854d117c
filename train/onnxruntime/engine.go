// Package onnxruntime computes the parameter gradients of training in ONNX Runtime, from a graph that onnx/gradient
// builds once.
//
// Equal inputs give equal bits on one machine: the rows of a batch are split by the number of shards only, each shard is
// computed by one thread, and gradients are added in the order of the shards.
package onnxruntime

import (
	"context"
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
	net    *refit.Model
	call   *ort.Call
	shards []*shard
	logits []float32
	closed bool
}

// New makes an engine for batches of up to rows rows. It reads the values of p at each call of Gradients and never
// writes them. The rows are split as evenly as possible over the shards, each of which runs on a goroutine; more shards than
// rows count as one a row. The last bits of a gradient depend on rows and shards, so both belong to the configuration
// and not to the machine.
func New(rt *ort.Runtime, a model.Arch, p model.Params, rows, shards int) (*Engine, error) {
	if rows < 1 || shards < 1 {
		return nil, fmt.Errorf("model %s: %d rows in %d shards, want at least 1 of each", a.Name, rows, shards)
	}
	if len(p) == 0 {
		return nil, fmt.Errorf("model %s has no parameters to train", a.Name)
	}
	shards = min(shards, rows)
	e := &Engine{arch: a, rows: rows, logits: make([]float32, rows*a.Classes)}
	if err := e.open(rt, p); err != nil {
		return nil, errors.Join(fmt.Errorf("model %s: %w", a.Name, err), e.Close())
	}
	for i := range shards {
		s, err := newShard(a, (rows+shards-1-i)/shards, e.grads, e.net.Tensors())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("model %s: %w", a.Name, err), e.Close())
		}
		e.shards = append(e.shards, s)
	}
	return e, nil
}

func (e *Engine) open(rt *ort.Runtime, p model.Params) error {
	graph, err := lower.Loss(e.arch, p, lower.Options{Refit: true})
	if err != nil {
		return err
	}
	e.net, err = refit.Open(rt, graph, p, ort.SessionOptions{Threads: 1, Name: "gradients of " + e.arch.Name})
	if err != nil {
		return err
	}
	e.grads = p.Clone()
	outputs := []string{lower.OutputLogits}
	for _, g := range e.grads {
		clear(g.Data)
		outputs = append(outputs, lower.GradientOf(g.Name))
	}
	e.call, err = e.net.Session().Bind(append([]string{lower.InputX, lower.InputAlpha, lower.InputBeta, lower.InputGamma}, e.net.Names()...), outputs)
	return err
}

// Plain says why the weights of the graph are not in the layout that is fastest; empty where they are.
func (e *Engine) Plain() string { return e.net.Plain() }

// Gradients runs forward and backward pass over a batch of 1 to rows rows with the present parameters; fewer than rows
// are filled up with rows of weight zero. It adds the gradients to Grads and gives the logits, [N,K], valid until the
// next call. Values that are not finite are no error. After an error Grads is as before.
func (e *Engine) Gradients(b train.Batch) (logits []float32, err error) {
	if e.closed {
		return nil, fmt.Errorf("model %s: the engine is closed", e.arch.Name)
	}
	size, k := e.arch.Size(), e.arch.Classes
	n, err := b.Check(e.rows, size, k)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", e.arch.Name, err)
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

// shard is the tensors of a part of the rows.
type shard struct {
	rows    int
	in, out []*ort.Tensor // x, alpha, beta, gamma and the weights; logits and the gradients
}

// own is the number of inputs of a shard that are not shared weights.
const own = 4

func newShard(a model.Arch, rows int, grads model.Params, weights []*ort.Tensor) (s *shard, err error) {
	s = &shard{rows: rows}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	add := func(list *[]*ort.Tensor, shape ...int) error {
		sizes := make([]int64, len(shape))
		for i, d := range shape {
			sizes[i] = int64(d)
		}
		t, err := ort.Float32(sizes, nil)
		if err == nil {
			*list = append(*list, t)
		}
		return err
	}
	for _, shape := range [own][]int{append([]int{rows}, a.Input...), {rows, 1}, {rows, 1}, {rows, a.Classes}} {
		if err := add(&s.in, shape...); err != nil {
			return nil, err
		}
	}
	s.in = append(s.in, weights...)
	if err := add(&s.out, rows, a.Classes); err != nil {
		return nil, err
	}
	for _, g := range grads {
		if err := add(&s.out, g.Shape...); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// run computes a batch of at most the shard's rows.
func (s *shard) run(call *ort.Call, b train.Batch) error {
	for i, from := range [own][]float32{b.X, b.Alpha, b.Beta, b.Gamma} {
		to := s.in[i].Data()
		clear(to[copy(to, from):])
	}
	return call.Run(context.Background(), s.in, s.out)
}

func (s *shard) close() {
	for _, t := range s.in[:min(own, len(s.in))] {
		t.Close()
	}
	for _, t := range s.out {
		t.Close()
	}
}
