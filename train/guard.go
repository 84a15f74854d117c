package train

import (
	"fmt"
	"math"
	"strings"
)

// The two ways in which a run goes wrong.
const (
	divergence = "divergence" // energies, gradients or loss run away or stop being numbers
	collapse   = "collapse"   // the loss looks fine, but the chains no longer reach what the model calls likely
)

// trouble is a run that has gone wrong. It is an error until a rollback deals with it.
type trouble struct {
	kind, what string
	since      int // first step that took part in it, counted from 1; 0: the step it was found at
}

func (t *trouble) Error() string { return t.kind + ": " + t.what }

// Event is an answer of the guard.
type Event struct {
	Step    int    // at which trouble was found, counted from 1
	Attempt int    // rollbacks before it
	Kind    string // divergence or collapse
	What    string // what was found, with the limit
	To      int    // steps done at the checkpoint that was gone back to; -1: none was
}

// inspect tells a diverged step from a healthy one.
func (g Guard) inspect(r Record) *trouble {
	bad := func(format string, args ...any) *trouble {
		return &trouble{kind: divergence, what: fmt.Sprintf(format, args...)}
	}
	switch {
	case r.NonFinite >= 0:
		return bad("row %d of the batch has a non-finite logit", r.NonFinite)
	case math.IsNaN(r.GradNorm) || math.IsInf(r.GradNorm, 0):
		return bad("the norm of the parameter gradient is %v", r.GradNorm)
	case g.MaxLoss > 0 && math.Abs(r.Loss) > g.MaxLoss:
		return bad("the loss is %.4g, its limit (guard.max_loss) %g", r.Loss, g.MaxLoss)
	case g.MaxEnergy > 0 && r.MaxAbsF > g.MaxEnergy:
		return bad("an energy is %.4g in size, the limit (guard.max_energy) %g", r.MaxAbsF, g.MaxEnergy)
	case g.MaxGap > 0 && math.Abs(r.Gap()) > g.MaxGap:
		return bad("the gap between data and samples is %.4g, its limit (guard.max_gap) %g", r.Gap(), g.MaxGap)
	}
	return nil
}

// watch looks at the gap over the last steps, where a collapse shows (see the package documentation).
type watch struct {
	gaps, misplaced []float64
	alarmed         bool
}

// add takes the next step and says whether the alarm was raised by it, and whether the chains are out of place.
func (w *watch) add(g Guard, rec Record, width float64) (alarm bool, found *trouble) {
	if math.IsNaN(rec.Gap()) {
		return false, nil
	}
	w.gaps = append(w.gaps, rec.Gap())
	w.misplaced = append(w.misplaced, max(math.Abs(rec.SampleMean-rec.DataMean)/width, math.Abs(rec.SamplesAtBounds-rec.DataAtBounds)))
	n := g.GapSteps
	if len(w.gaps) < n || g.GapAlarm == 0 {
		return false, nil
	}
	gap, place := average(w.gaps[len(w.gaps)-n:]), average(w.misplaced[len(w.misplaced)-n:])
	if !(gap > g.GapAlarm) {
		w.alarmed = false
		return false, nil
	}
	if place > g.Misplaced && g.OnCollapse != "warn" {
		return false, &trouble{kind: collapse, since: rec.Step - n + 1, what: fmt.Sprintf(
			"over the last %d steps data are more likely than samples by %.3g on average (guard.gap_alarm %g), and the two differ by %.2f in mean or in share at the bounds (guard.misplaced %g): the chains no longer reach what the model calls likely",
			n, gap, g.GapAlarm, place, g.Misplaced)}
	}
	alarm, w.alarmed = !w.alarmed, true
	return alarm, nil
}

// healthy says whether the gap is small now: at most the bound on average over the last steps, as many as there are.
func (w *watch) healthy(g Guard) bool {
	n := min(len(w.gaps), g.GapSteps)
	return n == 0 || average(w.gaps[len(w.gaps)-n:]) <= g.GapHealthy
}

// sign is the mean sign of the gap over the last 100 steps.
func (w *watch) sign() float64 {
	if len(w.gaps) == 0 {
		return math.NaN()
	}
	var sum float64
	last := w.gaps[max(0, len(w.gaps)-100):]
	for _, v := range last {
		switch {
		case v > 0:
			sum++
		case v < 0:
			sum--
		}
	}
	return sum / float64(len(last))
}

func average(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// advice says which keys to turn, those first that this configuration has left open.
func (c Config) advice(kind string) string {
	var do []string
	add := func(when bool, format string, args ...any) {
		if when {
			do = append(do, fmt.Sprintf(format, args...))
		}
	}
	s, lr := c.Sampler, c.Optimizer.LR
	if kind == collapse {
		add(true, "raise sampler.steps (%d)", s.Steps)
		add(s.GradClip > 0, "raise sampler.step_size (%g), so that step_size times grad_clip (%g) moves a chain further", s.StepSize, s.StepSize*s.GradClip)
		add(c.Optimizer.Name != "sgd" && c.Optimizer.Beta1 > 0, "set optimizer.beta1 to 0")
		add(true, "lower optimizer.lr (%g)", lr)
		return strings.Join(do, ", ")
	}
	add(c.Generative() && s.GradClip == 0, "bound the sampler's gradient (sampler.grad_clip, such as 0.1)")
	add(c.Generative() && !s.Clamp, "keep chains in range (sampler.clamp: true)")
	add(c.Generative() && c.Loss.EnergyReg == 0, "hold energies near 0 (loss.energy_l2, such as 0.1)")
	add(c.Optimizer.ClipNorm == 0, "bound the parameter gradient (optimizer.clip_norm, such as 1)")
	add(true, "lower optimizer.lr (%g)", lr)
	add(c.Generative() && c.DataNoise < 0.1, "raise data_noise (%g)", c.DataNoise)
	add(c.Generative() && c.Loss.EnergyReg > 0, "raise loss.energy_l2 (%g)", c.Loss.EnergyReg)
	add(true, "choose a smooth activation such as silu")
	return strings.Join(do, ", ")
}
