package stages

import (
	"context"

	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	"github.com/jempipe/jempipe/onnx/refit"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// liveModel is a model in ONNX Runtime. Its weights may change under it unless it is frozen: they are inputs of the
// graphs, over the memory of its parameters or, where refit is used, copied from there when chains or predictions begin.
// It takes and gives model space.
type liveModel struct {
	bundle    bundle
	foreign   *foreign // nil for our own; its weights do not change
	options   liveOptions
	onCPU     bool
	params    []*ort.Tensor
	names     []string
	sessions  []*ort.Session
	refitted  []*refit.Model
	densities []langevin.Density
	closers   []interface{ Close() }
}

// liveSession is a session with the weights that its runs take.
type liveSession struct {
	*ort.Session
	names   []string
	weights []*ort.Tensor
	update  func() // makes the next runs use the present weights
}

// liveOptions says what of a model is needed.
type liveOptions struct {
	densities   int           // how many chains run side by side; 0: none
	conditional bool          // the class-conditional density as well
	frozen      bool          // the weights do not change: constants, which ONNX Runtime lays out once
	rule        langevin.Rule // of the chains; more than one step a call makes densities that are Walkers
}

// stepsPerCall is how many updates a call of the model makes. On an accelerator the chain stays on the device between
// them; on the CPU there is nothing to save, and weights that change are read once a call in any case.
func stepsPerCall(rt *ort.Runtime, rule langevin.Rule, can bool) int {
	const most = 20 // bounds the noise that a call takes
	switch {
	case !can || rule.Correct == langevin.MALA:
		return 1
	case rule.StepsPerCall > 0:
		return rule.StepsPerCall
	case rt.Info().Provider == "cpu":
		return 1
	}
	return min(rule.Steps, most)
}

func newLiveModel(rt *ort.Runtime, b bundle, o liveOptions) (m *liveModel, err error) {
	m = &liveModel{bundle: b, options: o, onCPU: rt.Info().Provider == "cpu"}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if !o.frozen {
		if m.params, m.names, err = langevin.ParamTensors(b.Params); err != nil {
			return m, err
		}
	}
	if o.densities == 0 {
		return m, nil
	}
	return m, m.addDensities(rt)
}

// newForeignModel is a model that others trained.
func newForeignModel(rt *ort.Runtime, f *foreign, b bundle, o liveOptions) (m *liveModel, err error) {
	m = &liveModel{bundle: b, foreign: f, options: o}
	if err = m.addDensities(rt); err != nil {
		m.Close()
	}
	return m, err
}

// sessions of the densities; nil where they are not needed.
type densitySessions struct{ score, classScore, walk, classWalk *liveSession }

func (m *liveModel) addDensities(rt *ort.Runtime) error {
	var s densitySessions
	walks := m.options.rule.StepsPerCall > 1
	for _, open := range []struct {
		to     **liveSession
		kind   int
		wanted bool
	}{
		{&s.score, graphScore, true}, {&s.classScore, graphClassScore, m.options.conditional},
		{&s.walk, graphWalk, walks}, {&s.classWalk, graphClassWalk, walks && m.options.conditional},
	} {
		if !open.wanted {
			continue
		}
		var err error
		if *open.to, err = m.open(rt, open.kind); err != nil {
			return err
		}
	}
	for range m.options.densities {
		if err := m.addDensity(s); err != nil {
			return err
		}
	}
	return nil
}

// The graphs of a model in model space.
const (
	graphLogits = iota
	graphScore
	graphClassScore
	graphWalk
	graphClassWalk
)

func (m *liveModel) graph(kind int) (*onnxpb.ModelProto, error) {
	if kind == graphWalk || kind == graphClassWalk {
		g, err := m.graph(kind - graphWalk + graphScore)
		if err != nil {
			return nil, err
		}
		w := walkOf(m.options.rule)
		w.NoiseStd, w.Temperature = 1, 0 // the sampler gives the noise its width
		return g, lower.AddWalk(g, w)
	}
	if m.foreign != nil {
		return m.foreign.InModelSpace(kind != graphLogits, kind == graphClassScore)
	}
	build := []func(model.Arch, model.Params, lower.Options) (*onnxpb.ModelProto, error){lower.Classifier, lower.Score, lower.ClassScore}[kind]
	refits := m.refits()
	return build(m.bundle.Arch, m.bundle.Params, lower.Options{ParamsAsInputs: !m.options.frozen && !refits, Refit: refits})
}

// refits says whether a graph follows changing weights by way of package refit: on the CPU, where that is faster, unless
// it must share its weights with a graph of several updates.
func (m *liveModel) refits() bool {
	return m.onCPU && !m.options.frozen && m.foreign == nil && m.options.rule.StepsPerCall <= 1
}

// walkOf is what a Langevin graph has of an update rule.
func walkOf(r langevin.Rule) lower.Walk {
	w := lower.Walk{GradClip: r.GradClip, NoiseStd: r.NoiseStd, Temperature: r.Temperature, Clamp: r.Clamp}
	if len(r.Range) == 2 {
		w.Lo, w.Hi = r.Range[0], r.Range[1]
	}
	return w
}

// open makes a session over a graph of the model. Its calls run on one thread each: parallelism comes from running
// several at once.
func (m *liveModel) open(rt *ort.Runtime, kind int) (*liveSession, error) {
	graph, err := m.graph(kind)
	if err != nil {
		return nil, err
	}
	one := ort.SessionOptions{Threads: 1}
	if m.refits() {
		r, err := refit.Open(rt, graph, m.bundle.Params, one)
		if err != nil {
			return nil, err
		}
		m.refitted = append(m.refitted, r)
		return &liveSession{r.Session(), r.Names(), r.Tensors(), r.Update}, nil
	}
	data, err := ir.Marshal(graph)
	if err != nil {
		return nil, err
	}
	s, err := rt.Session(data, one)
	if err != nil {
		return nil, err
	}
	m.sessions = append(m.sessions, s)
	return &liveSession{s, m.names, m.params, func() {}}, nil
}

func (m *liveModel) addDensity(s densitySessions) error {
	plain, plainWalk, err := m.newDensity(s.score, s.walk, false)
	if err != nil {
		return err
	}
	d := density{plain: plain}
	if len(m.densities) == 0 { // the sessions are the same for all
		d.update = append(d.update, s.score.update)
	}
	w := walkingDensity{plain: plainWalk}
	if s.classScore != nil {
		if d.byClass, w.byClass, err = m.newDensity(s.classScore, s.classWalk, true); err != nil {
			return err
		}
		if len(m.densities) == 0 {
			d.update = append(d.update, s.classScore.update)
		}
	}
	if w.plain == nil {
		m.densities = append(m.densities, d)
		return nil
	}
	w.density = d
	m.densities = append(m.densities, w)
	return nil
}

// newDensity is the density of a score graph, and with the graph of several updates the same as a Walker.
func (m *liveModel) newDensity(score, walk *liveSession, target bool) (*langevin.ONNX, *langevin.ONNXWalk, error) {
	d, err := langevin.NewONNX(score.Session, m.bundle.Arch.Input, m.bundle.Arch.Classes, target, score.weights, score.names)
	if err != nil {
		return nil, nil, err
	}
	if walk == nil {
		m.closers = append(m.closers, d)
		return d, nil, nil
	}
	w, err := langevin.NewONNXWalk(d, walk.Session, walk.names)
	if err != nil {
		d.Close()
		return nil, nil, err
	}
	m.closers = append(m.closers, w)
	return d, w, nil
}

// predictor gives logits with the current weights, in batches of a fixed size.
func (m *liveModel) predictor(rt *ort.Runtime) (func(ctx context.Context, x []float32) ([]float32, error), error) {
	s, err := m.open(rt, graphLogits)
	if err != nil {
		return nil, err
	}
	call, err := s.Bind(append([]string{"x"}, s.names...), []string{"logits"})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, x []float32) ([]float32, error) {
		s.update()
		var logits []float32
		width := m.bundle.Arch.Size()
		for n := len(x) / width; n > 0; n = len(x) / width {
			rows, batch := min(n, 256), min(n, 256)
			if m.foreign != nil && m.foreign.Batch > 0 {
				batch = m.foreign.Batch
				rows = min(n, batch)
			}
			z, err := m.logits(ctx, call, s.weights, x[:rows*width], batch)
			if err != nil {
				return nil, err
			}
			logits, x = append(logits, z[:rows*m.bundle.Arch.Classes]...), x[rows*width:]
		}
		return logits, nil
	}, nil
}

// logits runs a batch whose rows behind those of x are zeros.
func (m *liveModel) logits(ctx context.Context, call *ort.Call, weights []*ort.Tensor, x []float32, rows int) ([]float32, error) {
	in, err := ort.Float32(batchShape(rows, m.bundle.Arch.Input), nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	copy(in.Data(), x)
	out, err := ort.Float32(batchShape(rows, []int{m.bundle.Arch.Classes}), nil)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if err := call.Run(ctx, append([]*ort.Tensor{in}, weights...), []*ort.Tensor{out}); err != nil {
		return nil, err
	}
	return append([]float32(nil), out.Data()...), nil
}

// Close frees tensors and sessions.
func (m *liveModel) Close() {
	for _, c := range m.closers {
		c.Close()
	}
	for _, s := range m.sessions {
		s.Close()
	}
	for _, r := range m.refitted {
		r.Close()
	}
	for _, t := range m.params {
		t.Close()
	}
}

// density picks the graph by whether chains have classes.
type density struct {
	plain, byClass *langevin.ONNX
	update         []func()
}

// Refresh implements langevin.Refresher.
func (d density) Refresh() {
	for _, f := range d.update {
		f()
	}
}

func (d density) Gradient(ctx context.Context, x []float32, classes []int32, logp []float64, grad []float32) error {
	if classes != nil {
		return d.byClass.Gradient(ctx, x, classes, logp, grad)
	}
	return d.plain.Gradient(ctx, x, nil, logp, grad)
}

// walkingDensity is a density that makes several updates in one call.
type walkingDensity struct {
	density
	plain, byClass *langevin.ONNXWalk
}

func (d walkingDensity) Walk(ctx context.Context, x []float32, classes []int32, noise, steps []float32, logp []float64) error {
	if classes != nil {
		return d.byClass.Walk(ctx, x, classes, noise, steps, logp)
	}
	return d.plain.Walk(ctx, x, nil, noise, steps, logp)
}

func batchShape(n int, shape []int) []int64 {
	out := []int64{int64(n)}
	for _, d := range shape {
		out = append(out, int64(d))
	}
	return out
}
