package gorgonia

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"unsafe"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/train"
)

// Solver configures the update rule.
type Solver = train.Solver

// DefaultSolver is Adam with the constants of its paper: 0.9, 0.999 and 1e-8, without weight decay.
func DefaultSolver() Solver { return Solver{Name: "adam", Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8} }

// checkSolver says what is wrong with the configuration.
func checkSolver(s Solver) error {
	unit := func(name string, v float64) error {
		if v >= 0 && v < 1 {
			return nil
		}
		return fmt.Errorf("solver %s: %s is %v, want at least 0 and below 1", s.Name, name, v)
	}
	if !(s.WeightDecay >= 0) {
		return fmt.Errorf("solver %s: weight decay is %v, want at least 0", s.Name, s.WeightDecay)
	}
	switch s.Name {
	case "adam", "adamw":
		if err := unit("beta1", s.Beta1); err != nil {
			return err
		}
		if err := unit("beta2", s.Beta2); err != nil {
			return err
		}
		if !(float32(s.Epsilon) > 0) {
			return fmt.Errorf("solver %s: epsilon is %v, want above 0", s.Name, s.Epsilon)
		}
		return nil
	case "sgd":
		return unit("momentum", s.Momentum)
	}
	return fmt.Errorf("solver %q is not one of adam, adamw, sgd", s.Name)
}

// newSolver is the gorgonia solver of a configuration.
func newSolver(s Solver) G.Solver {
	switch {
	case s.Name != "sgd":
		return G.NewAdamSolver(G.WithBeta1(s.Beta1), G.WithBeta2(s.Beta2), G.WithEps(s.Epsilon))
	case s.Momentum > 0:
		return G.NewMomentum(G.WithMomentum(s.Momentum))
	}
	return G.NewVanillaSolver()
}

// Updater updates parameters with a solver of gorgonia.
type Updater struct {
	config        Solver
	params, grads model.Params // shared with the caller
	solver        G.Solver
	model         []G.ValueGrad
	steps         int
	before        [][]float32 // velocities before a step, for Nesterov
}

var _ train.Updater = (*Updater)(nil)

// NewUpdater makes an updater that changes p, by name, with the gradients in grads; both stay the caller's. Parameters
// without a gradient are left alone.
func NewUpdater(s Solver, p, grads model.Params) (*Updater, error) {
	if err := checkSolver(s); err != nil {
		return nil, err
	}
	u := &Updater{config: s, grads: grads, solver: newSolver(s)}
	for _, g := range grads {
		w, ok := p.Lookup(g.Name)
		if !ok || len(w.Data) != len(g.Data) {
			return nil, fmt.Errorf("solver %s: gradient %s with %d values has no parameter of that size", s.Name, g.Name, len(g.Data))
		}
		u.params = append(u.params, w)
		u.model = append(u.model, weight{vector(w.Data), vector(g.Data)})
	}
	return u, nil
}

// Step implements train.Updater.
func (u *Updater) Step(lr float64) (err error) {
	defer recovered(&err)
	if math.IsNaN(lr) || math.IsInf(lr, 0) || lr < 0 {
		return fmt.Errorf("solver %s: learning rate %v, want a finite number of at least 0", u.config.Name, lr)
	}
	u.decay(lr)
	nesterov := u.config.Nesterov && u.config.Name == "sgd" && u.config.Momentum > 0
	if nesterov {
		if err := u.remember(); err != nil {
			return err
		}
	}
	G.WithLearnRate(lr)(u.solver)
	if err := u.solver.Step(u.model); err != nil {
		return fmt.Errorf("solver %s: %w", u.config.Name, err)
	}
	u.steps++
	if nesterov {
		return u.lookAhead()
	}
	return nil
}

// decay applies weight decay. Not by gorgonia's WithL2Reg: its Momentum adds the decayed velocity in place of the
// decayed weight.
func (u *Updater) decay(lr float64) {
	d := u.config.WeightDecay
	if d == 0 {
		return
	}
	for i, w := range u.params {
		if u.config.Name == "adamw" {
			keep := float32(1 - lr*d)
			for j := range w.Data {
				w.Data[j] *= keep
			}
			continue
		}
		g := u.grads[i].Data
		for j, v := range w.Data {
			g[j] += float32(float32(d) * v)
		}
	}
}

// remember keeps the velocities u of a step that is about to be taken.
func (u *Updater) remember() error {
	moments, err := u.moments()
	if err != nil {
		return err
	}
	if u.before == nil {
		for _, p := range u.params {
			u.before = append(u.before, make([]float32, len(p.Data)))
		}
	}
	for i, m := range moments {
		copy(u.before[i], m[0])
	}
	return nil
}

// lookAhead turns the step w += u' that was taken into w += Momentum*u' - lr*g, where u' = Momentum*u - lr*g: the
// difference is Momentum*(u' - u).
func (u *Updater) lookAhead() error {
	moments, err := u.moments()
	if err != nil {
		return err
	}
	mu := float32(u.config.Momentum)
	for i, w := range u.params {
		now, then := moments[i][0], u.before[i]
		for j := range w.Data {
			w.Data[j] += float32(mu * (now[j] - then[j]))
		}
	}
	return nil
}

// moments are the solver's own slices for each parameter: Adam's first and second moment, or the velocity of SGD; nil
// before the first step and without momentum. Gorgonia keeps them in unexported fields (cache, a slice of pairs of
// values) without a way to save or restore them.
func (u *Updater) moments() (out [][2][]float32, err error) {
	defer recovered(&err)
	cache := reflect.ValueOf(u.solver).Elem().FieldByName("cache")
	if !cache.IsValid() || u.plain() {
		return nil, nil
	}
	for i := range cache.Len() {
		pair := cache.Index(i).Elem()
		var both [2][]float32
		for j, field := range []string{"Value", "d"} {
			v := pair.FieldByName(field)
			v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
			data, ok := v.Interface().(G.Value).Data().([]float32)
			if !ok || len(data) != len(u.params[i].Data) {
				return nil, fmt.Errorf("solver %s: gorgonia keeps %T for parameter %s, want %d values of float32",
					u.config.Name, v.Interface(), u.params[i].Name, len(u.params[i].Data))
			}
			both[j] = data
		}
		out = append(out, both)
	}
	return out, nil
}

// plain says that the solver has no state.
func (u *Updater) plain() bool { return u.config.Name == "sgd" && u.config.Momentum == 0 }

// momentNames are the prefixes of the moments' names.
func (u *Updater) momentNames() []string {
	switch {
	case u.plain():
		return nil
	case u.config.Name == "sgd":
		return []string{"velocity/"}
	}
	return []string{"m/", "v/"}
}

// State implements train.Updater. The moments are named after the parameters: m/NAME and v/NAME of Adam (first and
// second moment), velocity/NAME of SGD with momentum.
func (u *Updater) State() (model.Params, int) {
	moments, err := u.moments()
	if err != nil || moments == nil {
		return nil, u.steps
	}
	var out model.Params
	for j, prefix := range u.momentNames() {
		for i, p := range u.params {
			out = append(out, model.Tensor{Name: prefix + p.Name, Shape: slices.Clone(p.Shape), Data: slices.Clone(moments[i][j])})
		}
	}
	return out, u.steps
}

// SetState implements train.Updater.
func (u *Updater) SetState(state model.Params, steps int) error {
	u.solver, u.steps = newSolver(u.config), steps
	names := u.momentNames()
	if steps == 0 || names == nil {
		return nil
	}
	if err := u.allocate(); err != nil {
		return err
	}
	moments, err := u.moments()
	if err != nil {
		return err
	}
	for j, prefix := range names {
		for i, p := range u.params {
			t, ok := state.Lookup(prefix + p.Name)
			if !ok || len(t.Data) != len(p.Data) {
				return fmt.Errorf("solver %s: state has %d values of %s%s, want %d", u.config.Name, len(t.Data), prefix, p.Name, len(p.Data))
			}
			copy(moments[i][j], t.Data)
		}
	}
	if u.config.Name != "sgd" {
		iter := reflect.ValueOf(u.solver).Elem().FieldByName("iter")
		reflect.NewAt(iter.Type(), unsafe.Pointer(iter.UnsafeAddr())).Elem().SetInt(int64(steps))
	}
	return nil
}

// allocate makes the solver create its moments, by a step of gradient and learning rate zero.
func (u *Updater) allocate() (err error) {
	defer recovered(&err)
	for _, g := range u.grads {
		clear(g.Data)
	}
	saved := u.params.Clone()
	G.WithLearnRate(0)(u.solver)
	err = u.solver.Step(u.model)
	for i, p := range u.params {
		copy(p.Data, saved[i].Data)
	}
	return err
}

// weight is one parameter and its gradient as gorgonia's solvers take it.
type weight struct{ value, grad *tensor.Dense }

func (w weight) Value() G.Value         { return w.value }
func (w weight) Grad() (G.Value, error) { return w.grad, nil }

func vector(data []float32) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(data)), tensor.WithBacking(data))
}
