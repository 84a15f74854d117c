// Package langevin draws samples from an energy-based model by stochastic gradient Langevin dynamics (SGLD). One
// sampler serves training, where chains persist in a replay buffer, and sampling from a finished model.
//
// The step is x <- x + step_size * d(log density)/dx + noise_std * N(0, I), with the gradient clipped and the state
// clamped where the configuration says so. It is equation 2 of Welling and Teh (2011) with the two factors set
// apart, as Grathwohl et al. (2019, section 4 and appendix H.3) use it: step_size is their alpha / 2.
package langevin

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
)

// Density is a log density that can be differentiated. Implementations are used by one goroutine at a time.
type Density interface {
	// Gradient writes the log density of n states, up to a constant, to logp [n] and its gradient with respect to
	// the states to grad [n*D]. x [n*D] is row-major in model space. classes [n] asks for log p(x, y) instead of
	// log p(x); it is nil for the unconditional density.
	Gradient(ctx context.Context, x []float32, classes []int32, logp []float64, grad []float32) error
}

// Config is the update rule. The zero value of a bound switches it off.
type Config struct {
	Steps    int     // updates a chain makes, at least 1
	StepSize float64 // factor of the gradient
	NoiseStd float64 // standard deviation of the noise of a step
	GradClip float64 // each gradient element is cut to [-GradClip, GradClip]; 0: no cut
	Clamp    bool    // keep every element of the state in [Lo, Hi]
	Lo, Hi   float64
}

// Chains is a batch of chains: their states and the keys of their noise.
type Chains struct {
	X       []float32 // [n*D] states in model space, changed in place
	Keys    []uint64  // [n] one key a chain: equal keys and seeds draw equal noise
	Classes []int32   // [n] the class of each chain, or nil
}

// Stats says how a batch of chains moved.
type Stats struct {
	Displacement float64 // mean over chains of the root-mean-square change of an element between start and end
	MaxAbsLogP   float64 // largest |log density| met
}

// Visit sees the states after step updates (0: the start) with their log densities. The slices are valid during the
// call only.
type Visit func(step int, x []float32, logp []float64) error

// Sampler runs chains. Batches are split over the densities, which run side by side; since chains do not meet, the
// split changes nothing but the time, save for the last bits of a density that depends on its batch size.
type Sampler struct {
	cfg       Config
	dim       int
	densities []Density
	noise     keyed.Source
	work      []scratch
}

type scratch struct {
	grad   []float32
	logp   []float64
	stream *keyed.Stream
	maxAbs float64
}

// NewSampler makes a sampler of states with dim elements. Every density takes an equal share of a batch, rounded up.
func NewSampler(cfg Config, dim int, noise keyed.Source, densities ...Density) (*Sampler, error) {
	switch {
	case dim < 1 || len(densities) < 1:
		return nil, fmt.Errorf("langevin: %d elements a state and %d densities: at least one of each is wanted", dim, len(densities))
	case cfg.Steps < 1:
		return nil, fmt.Errorf("langevin: %d steps: at least 1 is wanted", cfg.Steps)
	case cfg.Clamp && !(cfg.Lo < cfg.Hi):
		return nil, fmt.Errorf("langevin: states cannot be clamped to [%g, %g]", cfg.Lo, cfg.Hi)
	}
	return &Sampler{cfg: cfg, dim: dim, densities: densities, noise: noise, work: make([]scratch, len(densities))}, nil
}

// Run moves all chains by Config.Steps updates. With a visit it also sees the state after each update, which costs
// one more evaluation for the last. A non-finite gradient is an error that names chain and step.
func (s *Sampler) Run(ctx context.Context, c Chains, visit Visit) (Stats, error) {
	n := len(c.Keys)
	if n == 0 || len(c.X) != n*s.dim || c.Classes != nil && len(c.Classes) != n {
		return Stats{}, fmt.Errorf("langevin: %d keys, %d values and %d classes do not describe chains of %d elements",
			n, len(c.X), len(c.Classes), s.dim)
	}
	for i := range s.work {
		s.work[i].maxAbs = 0
	}
	start := append([]float32(nil), c.X...)
	logp := make([]float64, n)
	steps := s.cfg.Steps
	if visit == nil {
		if err := s.advance(ctx, c, logp, 0, steps, false); err != nil {
			return Stats{}, err
		}
	}
	for k := 0; visit != nil && k <= steps; k++ {
		if err := s.advance(ctx, c, logp, k, k+1, true); err != nil {
			return Stats{}, err
		}
		if err := visit(k, c.X, logp); err != nil {
			return Stats{}, err
		}
		if k < steps {
			s.apply(c, k)
		}
	}
	return s.stats(start, c.X), nil
}

// advance evaluates and, unless evaluateOnly is set, moves the chains through steps from..to, the shares side by side.
// Of several failures the one of the earliest step is told, whichever share met its own first.
func (s *Sampler) advance(ctx context.Context, c Chains, logp []float64, from, to int, evaluateOnly bool) error {
	failures := make([]failure, len(s.densities))
	var wg sync.WaitGroup
	s.shares(len(c.Keys), func(i, lo, hi int) {
		wg.Go(func() {
			step := from
			err := fault.Recovered(func() error {
				w, part := s.scratch(i, hi-lo), s.part(c, lo, hi)
				for ; step < to; step++ {
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := s.densities[i].Gradient(ctx, part.X, part.Classes, w.logp, w.grad); err != nil {
						return err
					}
					if err := w.inspect(s.dim, lo, step); err != nil {
						return err
					}
					if !evaluateOnly {
						s.move(w, part, step)
					}
				}
				copy(logp[lo:hi], w.logp)
				return nil
			})()
			failures[i] = failure{step, err}
		})
	})
	wg.Wait()
	var first failure
	for _, f := range failures {
		if f.err != nil && (first.err == nil || f.step < first.step) {
			first = f
		}
	}
	return first.err
}

// failure is an error with the step at which it happened.
type failure struct {
	step int
	err  error
}

// apply moves the chains along the gradients that advance left behind.
func (s *Sampler) apply(c Chains, step int) {
	s.shares(len(c.Keys), func(i, lo, hi int) { s.move(&s.work[i], s.part(c, lo, hi), step) })
}

func (s *Sampler) shares(n int, do func(i, lo, hi int)) {
	size := (n + len(s.densities) - 1) / len(s.densities)
	for i := range s.densities {
		if lo, hi := i*size, min((i+1)*size, n); lo < hi {
			do(i, lo, hi)
		}
	}
}

func (s *Sampler) part(c Chains, lo, hi int) Chains {
	p := Chains{X: c.X[lo*s.dim : hi*s.dim], Keys: c.Keys[lo:hi]}
	if c.Classes != nil {
		p.Classes = c.Classes[lo:hi]
	}
	return p
}

func (s *Sampler) scratch(i, n int) *scratch {
	w := &s.work[i]
	if w.stream == nil {
		w.stream = s.noise.At(0, 0)
	}
	if len(w.logp) != n {
		w.logp, w.grad = make([]float64, n), make([]float32, n*s.dim)
	}
	return w
}

func (w *scratch) inspect(dim, first, step int) error {
	for r, f := range w.logp {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return &NonFinite{What: "log density", Chain: first + r, Step: step, Value: f}
		}
		w.maxAbs = max(w.maxAbs, math.Abs(f))
	}
	for i, g := range w.grad {
		if v := float64(g); math.IsNaN(v) || math.IsInf(v, 0) {
			return &NonFinite{What: "gradient", Chain: first + i/dim, Step: step, Value: v}
		}
	}
	return nil
}

// move makes one update of a share of the chains.
func (s *Sampler) move(w *scratch, c Chains, step int) {
	cfg := s.cfg
	for r, key := range c.Keys {
		s.noise.Seek(w.stream, key, uint64(step))
		x, g := c.X[r*s.dim:(r+1)*s.dim], w.grad[r*s.dim:(r+1)*s.dim]
		for j := range x {
			d := float64(g[j])
			if cfg.GradClip > 0 {
				d = min(max(d, -cfg.GradClip), cfg.GradClip)
			}
			v := float64(x[j]) + cfg.StepSize*d
			if cfg.NoiseStd > 0 {
				v += cfg.NoiseStd * w.stream.NormFloat64()
			}
			if cfg.Clamp {
				v = min(max(v, cfg.Lo), cfg.Hi)
			}
			x[j] = float32(v)
		}
	}
}

func (s *Sampler) stats(start, end []float32) Stats {
	var st Stats
	for i := range s.work {
		st.MaxAbsLogP = max(st.MaxAbsLogP, s.work[i].maxAbs)
	}
	n := len(end) / s.dim
	for r := 0; r < n; r++ {
		var sq float64
		for j := r * s.dim; j < (r+1)*s.dim; j++ {
			d := float64(end[j]) - float64(start[j])
			sq += d * d
		}
		st.Displacement += math.Sqrt(sq / float64(s.dim))
	}
	st.Displacement /= float64(n)
	return st
}
