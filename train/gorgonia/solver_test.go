package gorgonia

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/model"
)

// referenceSolver is the update rules in float64, from the formulas in the documentation of Solver.
type referenceSolver struct {
	Solver
	t       int
	m, v, u []float64
}

func (s *referenceSolver) step(w, g []float64, lr float64) {
	if s.m == nil {
		s.m, s.v, s.u = make([]float64, len(w)), make([]float64, len(w)), make([]float64, len(w))
	}
	s.t++
	for i := range w {
		d := g[i]
		if s.Name == "adamw" {
			w[i] -= lr * s.WeightDecay * w[i]
		} else {
			d += s.WeightDecay * w[i]
		}
		if s.Name == "sgd" {
			s.u[i] = s.Momentum*s.u[i] - lr*d
			if s.Nesterov {
				w[i] += s.Momentum*s.u[i] - lr*d
			} else {
				w[i] += s.u[i]
			}
			continue
		}
		s.m[i] = s.Beta1*s.m[i] + (1-s.Beta1)*d
		s.v[i] = s.Beta2*s.v[i] + (1-s.Beta2)*d*d
		mhat := s.m[i] / (1 - math.Pow(s.Beta1, float64(s.t)))
		vhat := s.v[i] / (1 - math.Pow(s.Beta2, float64(s.t)))
		w[i] -= lr * mhat / (math.Sqrt(vhat) + s.Epsilon)
	}
}

func solvers() map[string]Solver {
	return map[string]Solver{
		"adam":              DefaultSolver(),
		"adam beta1 0":      {Name: "adam", Beta2: .999, Epsilon: 1e-8},
		"adam large eps":    {Name: "adam", Beta1: .9, Beta2: .99, Epsilon: .1},
		"adam weight decay": {Name: "adam", Beta1: .9, Beta2: .999, Epsilon: 1e-8, WeightDecay: .5},
		"sgd":               {Name: "sgd"},
		"sgd weight decay":  {Name: "sgd", WeightDecay: .5},
		"momentum":          {Name: "sgd", Momentum: .9},
		"momentum decay":    {Name: "sgd", Momentum: .8, WeightDecay: .5},
		"nesterov":          {Name: "sgd", Momentum: .9, Nesterov: true},
		"nesterov decay":    {Name: "sgd", Momentum: .7, Nesterov: true, WeightDecay: .5},
		"adamw":             {Name: "adamw", Beta1: .9, Beta2: .99, Epsilon: 1e-8, WeightDecay: .5},
	}
}

// Every step of gorgonia's solvers is compared with the formulas, on the gradients of the engine itself, with a
// learning rate that changes from step to step.
func TestSolversAgainstTheFormulas(t *testing.T) {
	a := testArch([]int{5}, dense(4), act(model.SiLU), dense(1))
	for name, s := range solvers() {
		t.Run(name, func(t *testing.T) {
			p := testParams(t, a, 1)
			e := newEngine(t, a, p, 3, 1)
			u := newUpdater(t, s, p, e)
			refs := make([]referenceSolver, len(p))
			weights := make([][]float64, len(p))
			for i := range p {
				refs[i].Solver, weights[i] = s, widen(p[i].Data)
			}
			for step := range 40 {
				gradients(t, e, testBatch(a, 3, uint64(step)))
				lr := .01 / float64(1+step%7)
				for i, g := range e.Grads() {
					refs[i].step(weights[i], widen(g.Data), lr)
				}
				if err := u.Step(lr); err != nil {
					t.Fatal(err)
				}
				for i := range p {
					for j, v := range p[i].Data {
						if d := math.Abs(float64(v) - weights[i][j]); !(d < 2e-5) {
							t.Fatalf("step %d: %s[%d] is %v, want %v", step, p[i].Name, j, v, weights[i][j])
						}
					}
				}
			}
		})
	}
}

func TestZeroLearningRateMovesNothing(t *testing.T) {
	a := testArch([]int{5}, dense(4))
	for name, s := range solvers() {
		p := testParams(t, a, 1)
		want := bits(p)
		e := newEngine(t, a, p, 3, 1)
		u := newUpdater(t, s, p, e)
		gradients(t, e, testBatch(a, 3, 1))
		if err := u.Step(0); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(bits(p), want) {
			t.Errorf("%s: the weights moved", name)
		}
	}
}

func TestSolverCheck(t *testing.T) {
	for want, s := range map[string]Solver{
		"not one of":   {Name: "lion"},
		"beta1":        {Name: "adam", Beta1: 1, Beta2: .9, Epsilon: 1},
		"beta2":        {Name: "adam", Beta2: -1, Epsilon: 1},
		"epsilon":      {Name: "adam", Beta2: .9},
		"momentum":     {Name: "sgd", Momentum: math.NaN()},
		"weight decay": {Name: "sgd", WeightDecay: -1},
	} {
		if err := checkSolver(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one about %s", s, err, want)
		}
	}
	for name, s := range solvers() {
		if err := checkSolver(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run that is cut at any step and continued by another updater from the saved state ends in the same bits.
func TestStateContinuesToTheBit(t *testing.T) {
	a := testArch([]int{5}, dense(4), act(model.SiLU), dense(3))
	for name, s := range solvers() {
		want := continued(t, a, s, -1)
		for cut := range 5 {
			if got := continued(t, a, s, cut); !slices.Equal(got, want) {
				t.Errorf("%s: other weights where the run is cut after %d of 5 steps", name, cut)
			}
		}
	}
}

// continued trains for 5 steps and goes on with a new updater after cut of them.
func continued(t *testing.T, a model.Arch, s Solver, cut int) []uint32 {
	p := testParams(t, a, 1)
	e := newEngine(t, a, p, 3, 1)
	u := newUpdater(t, s, p, e)
	for step := range 5 {
		if step == cut {
			moments, steps := u.State()
			kept := bits(p)
			u = newUpdater(t, s, p, e)
			if err := u.SetState(moments, steps); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(bits(p), kept) {
				t.Error("restoring the moments changed weights")
			}
		}
		gradients(t, e, testBatch(a, 3, uint64(step)))
		if err := u.Step(.01); err != nil {
			t.Fatal(err)
		}
	}
	return bits(p)
}

func TestStateOfAnotherModelIsRefused(t *testing.T) {
	a, b := testArch([]int{5}, dense(4)), testArch([]int{6}, dense(4))
	state := func(a model.Arch, s Solver, steps int) (*Updater, model.Params, int) {
		p := testParams(t, a, 1)
		e := newEngine(t, a, p, 3, 1)
		u := newUpdater(t, s, p, e)
		for step := range steps {
			gradients(t, e, testBatch(a, 3, uint64(step)))
			if err := u.Step(.01); err != nil {
				t.Fatal(err)
			}
		}
		moments, n := u.State()
		return u, moments, n
	}
	u, _, _ := state(a, DefaultSolver(), 0)
	_, other, n := state(b, DefaultSolver(), 2)
	if err := u.SetState(other, n); err == nil || !strings.Contains(err.Error(), "24 values of m/") {
		t.Errorf("moments of another shape: %v", err)
	}
	_, velocity, n := state(a, Solver{Name: "sgd", Momentum: .5}, 2)
	if err := u.SetState(velocity, n); err == nil {
		t.Error("the state of SGD was taken by Adam")
	}
	if _, err := NewUpdater(DefaultSolver(), testParams(t, a, 1), testParams(t, b, 1)); err == nil {
		t.Error("gradients of another model were taken")
	}
}
