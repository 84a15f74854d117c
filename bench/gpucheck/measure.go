package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jempipe/jempipe/bench/peers"
	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// tolerance bounds the relative difference between providers, by the norms of whole outputs: both compute in float32
// (the CUDA provider with TF32 off), and add in another order.
const tolerance = 1e-3

// run runs a graph twice on the same rows and gives the outputs of the second run.
func (g graph) run(ctx context.Context, s *ort.Session, rows int) ([][]float32, error) {
	b, err := g.batch(s, rows)
	if err != nil {
		return nil, err
	}
	defer b.close()
	for range 2 {
		if err := b.call.Run(ctx, b.in, b.out); err != nil {
			return nil, err
		}
	}
	var out [][]float32
	for _, t := range b.out {
		out = append(out, slices.Clone(t.Data()))
	}
	return out, nil
}

// batch is the inputs and outputs of runs of a graph. The first run makes the outputs.
type batch struct {
	call    *ort.Call
	in, out []*ort.Tensor
}

// batch makes inputs of so many rows: step sizes of 1, and numbers in [-1,1) for the rest.
func (g graph) batch(s *ort.Session, rows int) (*batch, error) {
	call, err := s.Bind(nil, g.outputs)
	if err != nil {
		return nil, err
	}
	b := &batch{call: call, out: make([]*ort.Tensor, len(g.outputs))}
	for _, v := range s.Inputs() {
		free := []int{rows}
		if v.Name == lower.InputNoise || v.Name == lower.InputStepSize {
			free = []int{walkSteps, rows}
		}
		size := 1
		for i, d := range v.Shape {
			if d < 0 {
				v.Shape[i], free = int64(free[0]), free[1:]
			}
			size *= int(v.Shape[i])
		}
		values := peers.Samples(1, size)
		if v.Name == lower.InputStepSize {
			for i := range values {
				values[i] = 1
			}
		}
		t, err := ort.Float32(v.Shape, values)
		if err != nil {
			b.close()
			return nil, err
		}
		b.in = append(b.in, t)
	}
	return b, nil
}

func (b *batch) close() {
	for _, t := range append(b.in, b.out...) {
		t.Close()
	}
}

// compare runs the same rows on the provider and on the CPU.
func (c *check) compare(ctx context.Context, g graph) error {
	var outputs [2][][]float32
	for i, rt := range []*ort.Runtime{c.rt, c.cpu} {
		s, err := g.open(rt, ort.SessionOptions{})
		if err != nil {
			return err
		}
		outputs[i], err = g.run(ctx, s, 64)
		s.Close()
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(c.out, "  relative difference from the CPU:")
	worst, at := 0.0, ""
	for i, name := range g.outputs {
		d := peers.Difference(outputs[0][i], outputs[1][i])
		fmt.Fprintf(c.out, " %s %.1e", name, d)
		if !(d <= worst) {
			worst, at = d, name
		}
	}
	fmt.Fprintln(c.out)
	if !(worst <= tolerance) {
		return fault.New(fault.Internal, "provider "+c.provider, "output %s of the %s differs from the CPU's by %.2g of its norm, at most %g is wanted", at, g.name, worst, tolerance)
	}
	return nil
}

// scoring measures how many rows a second the score graph takes.
func (c *check) scoring(ctx context.Context, net peers.Net) error {
	const rows = 256
	g, err := scoreGraph(net)
	if err != nil {
		return err
	}
	s, err := g.open(c.rt, ort.SessionOptions{})
	if err != nil {
		return err
	}
	defer s.Close()
	b, err := g.batch(s, rows)
	if err != nil {
		return err
	}
	defer b.close()
	took, err := c.median(func() ([]time.Duration, error) {
		start := time.Now()
		err := b.call.Run(ctx, b.in, b.out)
		return []time.Duration{time.Since(start)}, err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "  scoring, batches of %d: %.0f rows/s\n", rows, rows/took.Seconds())
	return nil
}

// median measures until the budget is spent. The first run does not count.
func (c *check) median(run func() ([]time.Duration, error)) (time.Duration, error) {
	if _, err := run(); err != nil {
		return 0, err
	}
	var all []time.Duration
	for end := time.Now().Add(c.budget); len(all) == 0 || time.Now().Before(end); {
		took, err := run()
		if err != nil {
			return 0, err
		}
		all = append(all, took...)
	}
	return peers.Median(all), nil
}

// parts is how many parts a batch is cut into: a GPU takes it whole.
func (c *check) parts() int {
	if c.provider == "cpu" {
		return c.rt.Info().Threads
	}
	return 1
}

// ours makes the parts of a training step on the provider, with chains of so many steps.
func (c *check) ours(net peers.Net, engine string, steps int) (*peers.Ours, error) {
	arch, params, err := net.Init()
	if err != nil {
		return nil, err
	}
	cfg := peers.Config()
	cfg.Shards, cfg.Sampler.Steps = c.parts(), steps
	return peers.NewOurs(c.rt, arch, params, engine, cfg)
}

// chains measures SGLD steps a second of 64 chains that make 1, 5 and 20 of them: on an accelerator in one call.
func (c *check) chains(ctx context.Context, net peers.Net) error {
	for _, steps := range []int{1, 5, 20} {
		o, err := c.ours(net, "", steps)
		if err != nil {
			return err
		}
		took, err := c.median(func() ([]time.Duration, error) { return o.Chains(ctx, 1) })
		o.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "  chains of %d steps: %.0f steps/s\n", steps, float64(steps)/took.Seconds())
	}
	return nil
}

// steps measures a training step with the engines that were asked for, and PyTorch's beside it.
func (c *check) steps(ctx context.Context, net peers.Net) error {
	theirs, note, err := c.torchStep(ctx, net)
	if err != nil {
		return err
	}
	for _, engine := range c.engines {
		o, err := c.ours(net, engine, peers.Config().Sampler.Steps)
		if err != nil {
			return err
		}
		took, err := c.median(func() ([]time.Duration, error) { return o.Steps(ctx, 2) })
		o.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "  training step, engine %s: %.1f ms", engine, took.Seconds()*1e3)
		if theirs > 0 {
			fmt.Fprintf(c.out, "; PyTorch eager (%s) %.1f ms, %.2f times", note, theirs.Seconds()*1e3, theirs.Seconds()/took.Seconds())
		}
		fmt.Fprintln(c.out)
	}
	return nil
}

// torchStep is the time of PyTorch's step; 0 where it is left out.
func (c *check) torchStep(ctx context.Context, net peers.Net) (took time.Duration, note string, err error) {
	if c.torch == nil {
		return 0, "", nil
	}
	o, err := c.ours(net, "", 1)
	if err != nil {
		return 0, "", err
	}
	defer o.Close()
	arch, params, err := net.Init()
	if err != nil {
		return 0, "", err
	}
	x := peers.Samples(8, arch.Size())
	score, err := o.Score(ctx, x)
	if err != nil {
		return 0, "", err
	}
	if err := c.torch.Load(net.Name, arch, params, peers.Config(), x, score); err != nil {
		return 0, "", err
	}
	took, err = c.median(func() (times []time.Duration, err error) {
		times, note, err = c.torch.Time(net.Name, "eager", "step", 2)
		return times, err
	})
	return took, note, err
}
