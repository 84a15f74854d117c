package train

import "github.com/jempipe/jempipe/model"

// Engine computes the gradient of the loss of a batch with respect to the parameters it was made with, whose memory it
// shares: a caller may change weights between two calls.
type Engine interface {
	// Gradients adds the gradient of the loss of a batch to Grads and gives the logits [N,K], which are valid until the
	// next call. Values that are not finite are no error. After an error the content of Grads is undefined.
	Gradients(b Batch) (logits []float32, err error)
	// Grads is the gradient of every trained parameter, under its name and in its shape, in the order of the
	// parameters. The memory is the engine's own and stays the same: the caller reads, scales and clears it.
	Grads() model.Params
	Close() error
}

// Solver chooses the rule of parameter updates.
//
//	adam   m = Beta1*m + (1-Beta1)*g; v = Beta2*v + (1-Beta2)*g^2; w -= lr * mhat/(sqrt(vhat)+Epsilon), with the bias
//	       corrections mhat = m/(1-Beta1^t), vhat = v/(1-Beta2^t) (Kingma and Ba 2015, algorithm 1)
//	adamw  w *= 1 - lr*WeightDecay, then adam (Loshchilov and Hutter 2019, algorithm 2)
//	sgd    u = Momentum*u - lr*g; w += u. The learning rate is inside u, so that a change of it takes a while to act.
//	       With Nesterov w += Momentum*u - lr*g, by the new u (Sutskever et al. 2013, equations 3 and 4, with the
//	       parameters taken at the point of the gradient)
//
// Weight decay of adam and sgd is L2 regularisation, as in PyTorch: WeightDecay*w is added to the gradient before the
// rule. Beta1, Beta2 and Momentum lie in [0,1), Epsilon is above 0.
type Solver struct {
	Name         string // adam, adamw or sgd
	Beta1, Beta2 float64
	Epsilon      float64
	Momentum     float64
	Nesterov     bool
	WeightDecay  float64
}

// Updater applies a Solver to the parameters and gradients it was made with.
type Updater interface {
	// Step changes the parameters by the gradients at a learning rate. It may overwrite the gradients. After an error
	// the parameters are undefined.
	Step(lr float64) error
	// State copies all that decides the next steps beside parameters and gradients: the moments, and the number of
	// steps taken.
	State() (moments model.Params, steps int)
	// SetState continues from a State of an updater of the same solver and parameters.
	SetState(moments model.Params, steps int) error
}
