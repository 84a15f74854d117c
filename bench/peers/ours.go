package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/stages"
	"github.com/jempipe/jempipe/train"
	"github.com/jempipe/jempipe/train/gorgonia"
	"github.com/jempipe/jempipe/train/onnxruntime"
)

// engines make what computes parameter gradients, by the values of the key engine of a train stage.
var engines = map[string]func(rt *ort.Runtime, a model.Arch, p model.Params, cfg train.Config) (train.Engine, error){
	"gorgonia": func(_ *ort.Runtime, a model.Arch, p model.Params, cfg train.Config) (train.Engine, error) {
		return gorgonia.New(a, p, cfg.Rows(), cfg.Shards, cfg.BatchSize)
	},
	"onnxruntime": func(rt *ort.Runtime, a model.Arch, p model.Params, cfg train.Config) (train.Engine, error) {
		return onnxruntime.New(rt, a, p, cfg.Rows(), cfg.Shards, cfg.BatchSize)
	},
}

// Engines lists the engines by name.
func Engines() []string { return slices.Sorted(maps.Keys(engines)) }

// Config is the training run that is measured: batches of 64, one real batch for p(x) and p(y|x), 20 SGLD updates a
// step, energy regulariser 0.1, Adam. The rest has its defaults.
func Config() train.Config {
	cfg := train.Default()
	cfg.BatchSize, cfg.OneBatch, cfg.EvalEvery = 64, true, 1<<30
	cfg.Optimizer.LR, cfg.Optimizer.Warmup = 1e-4, 0
	cfg.Guard = train.Guard{OnDivergence: "fail", OnCollapse: "warn", GapAlarm: math.MaxFloat64, GapSteps: 1} // data are noise
	return cfg
}

// Ours is a network with what a training step of this program needs. The parameters it was made with change.
type Ours struct {
	arch      model.Arch
	params    model.Params
	cfg       train.Config
	engine    train.Engine // nil without one
	updater   train.Updater
	sampler   *langevin.Sampler
	densities []langevin.Density
	data      train.Data
	closers   []func()
	runs      uint64 // calls of Steps
}

// NewOurs makes the parts of a step as a train stage does. Without the name of an engine only chains can be run.
func NewOurs(rt *ort.Runtime, arch model.Arch, params model.Params, engine string, cfg train.Config) (o *Ours, err error) {
	o = &Ours{arch: arch, params: params, cfg: cfg}
	defer func() {
		if err != nil {
			o.Close()
			o = nil
		}
	}()
	if engine != "" {
		build, ok := engines[engine]
		if !ok {
			return o, fmt.Errorf("engine %q is not known; wanted one of %s", engine, strings.Join(Engines(), ", "))
		}
		if o.engine, err = build(rt, arch, params, cfg); err != nil {
			return o, err
		}
		o.closers = append(o.closers, func() { _ = o.engine.Close() })
		if o.updater, err = gorgonia.NewUpdater(cfg.Optimizer.Solver(), params, o.engine.Grads()); err != nil {
			return o, err
		}
	}
	var free func()
	if o.cfg, o.densities, free, err = stages.Chains(rt, arch, params, cfg); err != nil {
		return o, err
	}
	o.closers = append(o.closers, free)
	if o.sampler, err = langevin.NewSampler(o.cfg.Sampler.Rule, arch.Size(), keyed.New(1, "bench sgld"), o.densities...); err != nil {
		return o, err
	}
	const rows = 4096
	o.data = train.Data{X: Samples(rows, arch.Size()), Labels: make([]int32, rows), Dim: arch.Size(), Classes: arch.Classes}
	for i := range o.data.Labels {
		o.data.Labels[i] = int32(i % arch.Classes)
	}
	return o, nil
}

// Close frees everything but the parameters.
func (o *Ours) Close() {
	for _, free := range slices.Backward(o.closers) {
		free()
	}
	o.closers = nil
}

// Score is the gradient of the log density with respect to rows of the network's input.
func (o *Ours) Score(ctx context.Context, x []float32) ([]float32, error) {
	if d, ok := o.densities[0].(langevin.Refresher); ok {
		d.Refresh()
	}
	grad := make([]float32, len(x))
	return grad, o.densities[0].Gradient(ctx, x, nil, make([]float64, len(x)/o.arch.Size()), grad)
}

// Chains runs n batches of chains one after the other and tells how long each took.
func (o *Ours) Chains(ctx context.Context, n int) ([]time.Duration, error) {
	c := langevin.Chains{X: Samples(o.cfg.BatchSize, o.arch.Size()), Keys: make([]uint64, o.cfg.BatchSize)}
	took := make([]time.Duration, n)
	for k := range n {
		for i := range c.Keys {
			c.Keys[i] = uint64(k*o.cfg.BatchSize + i)
		}
		start := time.Now()
		if _, err := o.sampler.Run(ctx, c, nil); err != nil {
			return nil, err
		}
		took[k] = time.Since(start)
	}
	return took, nil
}

// Steps trains for n steps by train.Run and tells how long each took. One step more is made before them, in which the
// replay buffer is set up.
func (o *Ours) Steps(ctx context.Context, n int) ([]time.Duration, error) {
	if o.engine == nil {
		return nil, errors.New("there is no engine to make training steps with")
	}
	cfg := o.cfg
	cfg.Steps = n + 1
	took := make([]time.Duration, 0, n)
	var last time.Time
	_, err := train.Run(ctx, cfg, o.data, o.runs, train.Deps{
		Params: o.params, Engine: o.engine, Updater: o.updater, Densities: o.densities, Log: slog.New(slog.DiscardHandler),
		Progress: func(done, _ int, _ train.Record) {
			if now := time.Now(); done > 1 {
				took = append(took, now.Sub(last))
			}
			last = time.Now()
		},
	})
	o.runs++
	return took, err
}

// Median is the middle of the times, the mean of the two in the middle for an even number; 0 for none.
func Median(times []time.Duration) time.Duration {
	n := len(times)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}
