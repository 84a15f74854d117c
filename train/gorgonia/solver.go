package gorgonia

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/train"
)

// Solver configures the update rule. Fields that its rule does not use are ignored.
//
//	adam  m = Beta1*m + (1-Beta1)*g; v = Beta2*v + (1-Beta2)*g^2; w -= lr * mhat/(sqrt(vhat)+Epsilon), with the bias
//	      corrections mhat = m/(1-Beta1^t), vhat = v/(1-Beta2^t) (Kingma and Ba 2015)
//	sgd   u = Momentum*u - lr*g; w += u. The learning rate is inside u, so that a change of it takes a while to act.
//
// Weight decay is L2 regularisation in all rules, as in PyTorch's Adam and SGD: WeightDecay*w is added to the gradient
// before the rule. It is not decoupled (AdamW). Beta1, Beta2 and Momentum lie in [0,1), Epsilon is above 0.
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
	case "adam":
		if err := unit("beta1", s.Beta1); err != nil {
			return err
		}
		if err := unit("beta2", s.Beta2); err != nil {
			return err
		}
		if !(float32(s.Epsilon) > 0) {
			return fmt.Errorf("solver adam: epsilon is %v, want above 0", s.Epsilon)
		}
		return nil
	case "sgd":
		return unit("momentum", s.Momentum)
	}
	return fmt.Errorf("solver %q is not one of adam, sgd", s.Name)
}

// newSolver is the gorgonia solver of a configuration.
func newSolver(s Solver) G.Solver {
	switch {
	case s.Name == "adam":
		return G.NewAdamSolver(G.WithBeta1(s.Beta1), G.WithBeta2(s.Beta2), G.WithEps(s.Epsilon))
	case s.Momentum > 0:
		return G.NewMomentum(G.WithMomentum(s.Momentum))
	}
	return G.NewVanillaSolver()
}

// weight is one parameter and its gradient as gorgonia's solvers take it.
type weight struct{ value, grad *tensor.Dense }

func (w weight) Value() G.Value         { return w.value }
func (w weight) Grad() (G.Value, error) { return w.grad, nil }

// weights are the parameters and their gradients, sharing the memory of both.
func weights(p, grads model.Params) []G.ValueGrad {
	out := make([]G.ValueGrad, len(p))
	for i := range p {
		out[i] = weight{vector(p[i].Data), vector(grads[i].Data)}
	}
	return out
}

func vector(data []float32) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(data)), tensor.WithBacking(data))
}
