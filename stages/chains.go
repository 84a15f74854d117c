package stages

import (
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/train"
)

// Chains opens what the chains of a training run work with, as a train stage does: cfg.Shards densities over the current
// values of p, for parts of a batch that run side by side. The configuration that it gives says how many steps a call
// of the model makes on this runtime. The caller closes the densities with free.
func Chains(rt *ort.Runtime, a model.Arch, p model.Params, cfg train.Config) (resolved train.Config, densities []langevin.Density, free func(), err error) {
	cfg.Sampler.StepsPerCall = stepsPerCall(rt, cfg.Sampler.Rule, true)
	live, err := newLiveModel(rt, bundle{Arch: a, Params: p},
		liveOptions{densities: cfg.Shards, conditional: cfg.Conditional(), rule: cfg.Sampler.Rule})
	if err != nil {
		return cfg, nil, nil, err
	}
	return cfg, live.densities, live.Close, nil
}
