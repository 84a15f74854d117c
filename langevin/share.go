package langevin

import (
	"context"
	"math"

	"github.com/jempipe/jempipe/internal/keyed"
)

// share is the part of a batch of chains that one density moves.
type share struct {
	s       *Sampler
	density Density
	Chains
	first int // number of its first chain in the batch

	at      int  // updates made
	settled bool // logp and grad are those of X
	logp    []float64
	grad    []float32
	start   []float64 // log density of the start
	noise   []float32
	maxAbs  float64

	// For mala.
	proposal, proposalGrad []float32
	proposalLogp           []float64
	inside                 []bool
	accepted, proposed     int
	stream                 *keyed.Stream

	walked []float64 // log densities of a Walk, [S*n]
}

func (w *share) begin(c Chains, first int) {
	w.Chains, w.first = c, first
	w.at, w.settled, w.maxAbs, w.accepted, w.proposed = 0, false, 0, 0, 0
	w.start = w.start[:0]
	if n := len(c.Keys); len(w.logp) != n {
		w.logp, w.grad = make([]float64, n), make([]float32, len(c.X))
	}
}

// advance makes updates until so many have been made.
func (w *share) advance(ctx context.Context, to int) error {
	walker, ok := w.density.(Walker)
	for w.at < to {
		var err error
		switch {
		case w.s.rule.Correct == MALA:
			err = w.proposeAndDecide(ctx)
		case ok && w.s.rule.StepsPerCall > 1:
			err = w.walk(ctx, walker, min(w.s.rule.StepsPerCall, to-w.at))
		default:
			if err = w.settle(ctx); err == nil {
				w.drawNoise()
				move(w.X, w.grad, w.noise, w.s.update(w.at))
				w.at, w.settled = w.at+1, false
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settle makes logp and grad those of X.
func (w *share) settle(ctx context.Context) error {
	if w.settled {
		return nil
	}
	if err := w.evaluate(ctx, w.X, w.logp, w.grad); err != nil {
		return err
	}
	w.settled = true
	w.keepStart(w.logp)
	return nil
}

// keepStart keeps the first log densities that are met.
func (w *share) keepStart(logp []float64) {
	if len(w.start) == 0 {
		w.start = append(w.start, logp...)
	}
}

func (w *share) evaluate(ctx context.Context, x []float32, logp []float64, grad []float32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.density.Gradient(ctx, x, w.Classes, logp, grad); err != nil {
		return err
	}
	if err := w.inspect(logp, w.at); err != nil {
		return err
	}
	return w.inspectElements("gradient", grad)
}

// inspectElements looks for an element [n*D] that is not finite.
func (w *share) inspectElements(what string, x []float32) error {
	if finite(x) {
		return nil
	}
	for i := range x {
		if v := float64(x[i]); math.IsNaN(v) || math.IsInf(v, 0) {
			return &NonFinite{What: what, Chain: w.first + i/w.s.dim, Step: w.at, Value: v}
		}
	}
	return nil
}

// inspect checks log densities and keeps the largest.
func (w *share) inspect(logp []float64, step int) error {
	for r, f := range logp {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return &NonFinite{What: "log density", Chain: w.first + r, Step: step, Value: f}
		}
		w.maxAbs = max(w.maxAbs, math.Abs(f))
	}
	return nil
}

// walk makes n updates in one call.
func (w *share) walk(ctx context.Context, density Walker, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	chains := len(w.Keys)
	w.noise = resized(w.noise, n*len(w.X))
	for k := range n {
		std := w.s.stds[w.at+k]
		z := w.noise[k*len(w.X) : (k+1)*len(w.X)]
		w.s.normals(z, w.Keys, w.at+k, std)
		for i := range z {
			z[i] *= std
		}
	}
	w.walked = resized(w.walked, n*chains)
	if err := density.Walk(ctx, w.X, w.Classes, w.noise, w.s.steps[w.at:w.at+n], w.walked); err != nil {
		return err
	}
	for k := range n {
		if err := w.inspect(w.walked[k*chains:(k+1)*chains], w.at+k); err != nil {
			w.at += k
			return err
		}
	}
	w.keepStart(w.walked[:chains])
	copy(w.logp, w.walked[(n-1)*chains:])
	w.at, w.settled = w.at+n, false
	return w.inspectElements("state", w.X)
}

// drawNoise draws the standard noise of the next update.
func (w *share) drawNoise() {
	w.noise = resized(w.noise, len(w.X))
	w.s.normals(w.noise, w.Keys, w.at, w.s.stds[w.at])
}

// normals fills z [n*D] with the standard noise of n chains; where the noise has no width there is none to draw.
func (s *Sampler) normals(z []float32, keys []uint64, step int, std float32) {
	if std == 0 {
		clear(z)
		return
	}
	for r, key := range keys {
		s.noise.Normals(z[r*s.dim:(r+1)*s.dim], key, uint64(step))
	}
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
