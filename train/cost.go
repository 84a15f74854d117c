package train

import (
	"time"

	"github.com/jempipe/jempipe/model"
)

// Work counts what a network computes for one row. Gradients are multiples of it: that of the input of a layer takes as
// many products as the layer, and that of its weights too.
type Work struct {
	Conv, Dense float64 // products of the forward pass, each with an addition
	First       float64 // of these, those of the first layer with weights
	Cheap       float64 // outputs of ReLU and leaky ReLU, inputs of pools
	Costly      float64 // outputs of the other activations and of normalisations
}

// WorkOf counts the work of a network.
func WorkOf(a model.Arch) (Work, error) {
	var w Work
	err := a.Walk(func(l model.Placed) {
		out := float64(model.Size(l.Out))
		switch {
		case l.Kind == model.Conv:
			n := out * float64(l.In[0]*l.Kernel*l.Kernel)
			w.Conv += n
			w.first(n)
		case l.Kind == model.Dense:
			n := out * float64(l.In[0])
			w.Dense += n
			w.first(n)
		case l.Kind == model.Pool:
			w.Cheap += float64(model.Size(l.In))
		case l.Kind == model.Act && (l.Func == model.ReLU || l.Func == model.LeakyReLU):
			w.Cheap += out
		case l.Kind == model.Act || l.Kind == model.Norm:
			w.Costly += out
		}
	})
	return w, err
}

func (w *Work) first(n float64) {
	if w.First == 0 {
		w.First = n
	}
}

// rates are nanoseconds of one core for each unit of work. The products of an input gradient and of a weight gradient
// count like those of a forward pass; values count once for forward and backward pass together.
type rates struct{ conv, dense, cheap, costly float64 }

// The rates were fitted to eight networks, from an MLP with 128 units to WRN-10-2, on one core of an x86-64 processor
// with AVX2 (docs/performance.md, "A training step", has the measurements). They are constants so that what is said
// about a network does not depend on the machine, and nothing is measured at run time.
var (
	rateScore       = rates{conv: 0.026, dense: 0.026, cheap: 1.5, costly: 4} // a step of a chain in ONNX Runtime
	rateONNXRuntime = rates{conv: 0.035, dense: 0.035, cheap: 2, costly: 8}   // parameter gradients in ONNX Runtime
	rateGorgonia    = rates{conv: 0.155, dense: 0.28, cheap: 6, costly: 25}   // parameter gradients in gorgonia
)

// of is the time of one row in nanoseconds, for some passes over all products and for those behind the first layer.
func (r rates) of(w Work, all, inner float64) float64 {
	passes := all + inner
	first := w.First * r.conv
	if w.Conv == 0 {
		first = w.First * r.dense
	}
	return passes*(w.Conv*r.conv+w.Dense*r.dense) - inner*first + w.Cheap*r.cheap + w.Costly*r.costly
}

// StepCost is the expected time of one step on one core, from the architecture and stated constants. Shares of several
// cores, updates of the weights, noise and the buffer are left out: they are the same for both engines.
type StepCost struct {
	Chains      time.Duration // SGLD, which runs in ONNX Runtime with either engine
	Gorgonia    time.Duration // parameter gradients with engine gorgonia
	ONNXRuntime time.Duration // parameter gradients with engine onnxruntime
}

// Factor is how many times as long a step takes with engine gorgonia as with engine onnxruntime.
func (c StepCost) Factor() float64 {
	return float64(c.Chains+c.Gorgonia) / float64(c.Chains+c.ONNXRuntime)
}

// StepCost expects the time of a step of a run with these settings. It is a function of its arguments alone.
func (c Config) StepCost(a model.Arch) (StepCost, error) {
	w, err := WorkOf(a)
	if err != nil {
		return StepCost{}, err
	}
	l := c.layout()
	chains := float64((l.samples.n() + l.joint.n()) * c.Sampler.Steps)
	return StepCost{
		Chains:      time.Duration(chains * rateScore.of(w, 2, 0)),
		Gorgonia:    time.Duration(float64(l.rows) * rateGorgonia.of(w, 2, 1)),
		ONNXRuntime: time.Duration(float64(l.rows) * rateONNXRuntime.of(w, 2, 1)),
	}, nil
}
