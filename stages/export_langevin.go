package stages

import (
	"context"
	"fmt"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/pipeline"
)

// exported is a graph of a trained model in a file.
type exported struct {
	file  string
	build func(model.Arch, model.Params, lower.Options) (*onnxpb.ModelProto, error)
}

// exports lists the graphs that are written of a model. Where p(x) or p(y|x) was not trained chains of p(x|y) lead
// nowhere.
func exports(b bundle) []exported {
	walk := func(target bool) func(model.Arch, model.Params, lower.Options) (*onnxpb.ModelProto, error) {
		return func(a model.Arch, p model.Params, o lower.Options) (*onnxpb.ModelProto, error) {
			return lower.Langevin(a, p, o, walkOf(b.Sampler.Rule), target)
		}
	}
	list := []exported{{classifierFile, lower.Classifier}, {scoreFile, lower.Score}, {langevinFile, walk(false)}}
	if b.Objective == "jem" || b.Objective == "conditional" {
		list = append(list, exported{langevinClassFile, walk(true)})
	}
	return list
}

// checkLangevin compares a Langevin graph with the sampler for a few updates of chains that start from x, states in
// model space, and records the largest difference. The sampler asks the score graph, which was compared with the
// training engine, once an update.
func (e *Export) checkLangevin(ctx context.Context, rc *pipeline.RunContext, rt *ort.Runtime, b bundle, file string, graph []byte, x []float32) error {
	const updates = 3
	width := b.Arch.Size()
	n := len(x) / width
	rule := b.Sampler.Rule
	rule.Steps, rule.Schedule, rule.Correct, rule.StepsPerCall = updates, langevin.Constant, langevin.None, 1
	c := langevin.Chains{X: append([]float32(nil), x...), Keys: make([]uint64, n)}
	conditional := file == langevinClassFile
	for i := range n {
		c.Keys[i] = uint64(i)
		if conditional {
			c.Classes = append(c.Classes, int32(i%b.Arch.Classes))
		}
	}
	noise := keyed.New(stageSeed(rc), "export langevin")
	got, err := runLangevin(ctx, rt, graph, b, rule, c, noise)
	if err != nil {
		return err
	}
	live, err := newLiveModel(rt, b, liveOptions{densities: 1, conditional: conditional, frozen: true, rule: rule})
	if err != nil {
		return err
	}
	defer live.Close()
	s, err := langevin.NewSampler(rule, width, noise, live.densities...)
	if err != nil {
		return err
	}
	if _, err := s.Run(ctx, c, nil); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return e.agree(rc, map[bool]string{false: "langevin_difference", true: "langevin_class_difference"}[conditional], file, got, c.X,
		"the graph of several updates and the sampler")
}

// runLangevin makes the updates of a rule in one call of a Langevin graph and gives the states.
func runLangevin(ctx context.Context, rt *ort.Runtime, graph []byte, b bundle, rule langevin.Rule, c langevin.Chains, noise keyed.Source) ([]float32, error) {
	s, err := rt.Session(graph, ort.SessionOptions{Threads: 1, Name: langevinFile})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	n, width := len(c.Keys), b.Arch.Size()
	z, steps := make([]float32, rule.Steps*n*width), make([]float32, rule.Steps)
	for k := range rule.Steps {
		steps[k] = float32(rule.StepSize)
		for r, key := range c.Keys {
			at := (k*n + r) * width
			noise.Normals(z[at:at+width], key, uint64(k))
		}
	}
	var in []*ort.Tensor
	defer func() {
		for _, t := range in {
			t.Close()
		}
	}()
	add := func(shape []int64, data []float32) {
		if err != nil {
			return
		}
		var t *ort.Tensor
		if t, err = ort.Float32(shape, data); err == nil {
			in = append(in, t)
		}
	}
	state := batchShape(n, b.Arch.Input)
	names := []string{lower.InputX0, lower.InputNoise, lower.InputStepSize}
	add(state, append([]float32(nil), c.X...))
	add(append([]int64{int64(rule.Steps)}, state...), z)
	add([]int64{int64(rule.Steps)}, steps)
	if c.Classes != nil {
		names = append(names, lower.InputTarget)
		target := make([]float32, n*b.Arch.Classes)
		for r, y := range c.Classes {
			target[r*b.Arch.Classes+int(y)] = 1
		}
		add([]int64{int64(n), int64(b.Arch.Classes)}, target)
	}
	if err != nil {
		return nil, err
	}
	call, err := s.Bind(names, []string{lower.OutputX})
	if err != nil {
		return nil, err
	}
	out := make([]*ort.Tensor, 1)
	if err := call.Run(ctx, in, out); err != nil {
		return nil, err
	}
	defer out[0].Close()
	return append([]float32(nil), out[0].Data()...), nil
}

// agree records how far two results of the exported graphs lie apart, and says who disagrees where that is too much.
func (e *Export) agree(rc *pipeline.RunContext, key, file string, got, want []float32, who string) error {
	d := difference(got, want)
	rc.Detail(key, d)
	if d <= e.Tolerance {
		return nil
	}
	return fault.New(fault.Internal, file, "%s is %.3g of the largest value, at most %g is wanted: %s disagree about this model", key, d, e.Tolerance, who).
		Do("report this with the architecture and the ONNX Runtime version; tolerance can be raised if the weights are very large")
}
