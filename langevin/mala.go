package langevin

import (
	"context"
	"math"
)

// proposeAndDecide is one update of the Metropolis-adjusted Langevin algorithm (Roberts and Tweedie 1996, section 1.2)
// for the target p(x)^(1/T), T the temperature. The proposal is
//
//	x' = x + a d(x) + s z,   d the clipped gradient of log p, s^2 = 2 a T,   z ~ N(0, I),
//
// and it is accepted with probability min(1, exp(r)),
//
//	r = (log p(x') - log p(x)) / T + log q(x | x') - log q(x' | x),   log q(y | x) = -|y - x - a d(x)|^2 / (2 s^2).
//
// The proposal densities are those of the proposals that are made, clipping included, so that the target is exact
// whatever the step. With clamp the target is p restricted to the range: a proposal outside it is refused. After the
// update logp and grad belong to X.
func (w *share) proposeAndDecide(ctx context.Context) error {
	if err := w.settle(ctx); err != nil {
		return err
	}
	s, n := w.s, len(w.Keys)
	w.proposal, w.proposalGrad = resized(w.proposal, len(w.X)), resized(w.proposalGrad, len(w.X))
	w.proposalLogp, w.inside = resized(w.proposalLogp, n), resized(w.inside, n)
	w.drawNoise()
	copy(w.proposal, w.X)
	u := s.update(w.at)
	u.lo, u.hi = float32(math.Inf(-1)), float32(math.Inf(1))
	u.symmetrical = true
	move(w.proposal, w.grad, w.noise, u)
	for r := range n {
		row := w.proposal[r*s.dim : (r+1)*s.dim]
		if w.inside[r] = !s.rule.Clamp || within(row, s.lo, s.hi); !w.inside[r] {
			copy(row, w.X[r*s.dim:]) // the model is not asked about what is refused in any case
		}
	}
	if err := w.evaluate(ctx, w.proposal, w.proposalLogp, w.proposalGrad); err != nil {
		return err
	}
	for r := range n {
		w.proposed++
		if w.inside[r] && w.accepts(r, u) {
			w.accepted++
			copy(w.X[r*s.dim:(r+1)*s.dim], w.proposal[r*s.dim:])
			copy(w.grad[r*s.dim:(r+1)*s.dim], w.proposalGrad[r*s.dim:])
			w.logp[r] = w.proposalLogp[r]
		}
	}
	w.at++
	return nil
}

// accepts decides about the proposal of chain r of the share by a uniform number of the chain's own stream.
func (w *share) accepts(r int, u update) bool {
	s := w.s
	x, g := w.X[r*s.dim:(r+1)*s.dim], w.grad[r*s.dim:(r+1)*s.dim]
	y, h := w.proposal[r*s.dim:(r+1)*s.dim], w.proposalGrad[r*s.dim:(r+1)*s.dim]
	var there, back float64
	for j := range x {
		d := float64(y[j]) - float64(x[j])
		to := d - float64(u.step)*float64(bound(g[j], u.clip))
		from := -d - float64(u.step)*float64(bound(h[j], u.clip))
		there += to * to
		back += from * from
	}
	variance := float64(u.std) * float64(u.std)
	ratio := (w.proposalLogp[r]-w.logp[r])/s.rule.Temperature + (there-back)/(2*variance)
	if w.stream == nil {
		w.stream = s.accept.At(0, 0)
	}
	s.accept.Seek(w.stream, w.Keys[r], uint64(w.at))
	return math.Log(w.stream.Float64()) < ratio
}

func within(x []float32, lo, hi float32) bool {
	for _, v := range x {
		if v < lo || v > hi {
			return false
		}
	}
	return true
}
