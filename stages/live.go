package stages

import (
	"context"

	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// liveModel is a model in ONNX Runtime whose weights may change under it: they are inputs of the graphs, over the
// memory of its parameters. It takes and gives model space.
type liveModel struct {
	bundle    bundle
	foreign   *foreign // nil for our own; its weights do not change
	params    []*ort.Tensor
	names     []string
	sessions  []*ort.Session
	densities []langevin.Density
	closers   []interface{ Close() }
}

// liveOptions says what of a model is needed.
type liveOptions struct {
	densities   int  // how many chains run side by side; 0: none
	conditional bool // the class-conditional density as well
}

func newLiveModel(rt *ort.Runtime, b bundle, o liveOptions) (m *liveModel, err error) {
	m = &liveModel{bundle: b}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if m.params, m.names, err = langevin.ParamTensors(b.Params); err != nil || o.densities == 0 {
		return m, err
	}
	return m, m.addDensities(rt, o)
}

// newForeignModel is a model that others trained.
func newForeignModel(rt *ort.Runtime, f *foreign, b bundle, o liveOptions) (m *liveModel, err error) {
	m = &liveModel{bundle: b, foreign: f}
	if err = m.addDensities(rt, o); err != nil {
		m.Close()
	}
	return m, err
}

func (m *liveModel) addDensities(rt *ort.Runtime, o liveOptions) error {
	plain, err := m.open(rt, graphScore)
	if err != nil {
		return err
	}
	var byClass *ort.Session
	if o.conditional {
		if byClass, err = m.open(rt, graphClassScore); err != nil {
			return err
		}
	}
	for range o.densities {
		if err := m.addDensity(plain, byClass); err != nil {
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
)

func (m *liveModel) graph(kind int) (*onnxpb.ModelProto, error) {
	if m.foreign != nil {
		return m.foreign.InModelSpace(kind != graphLogits, kind == graphClassScore)
	}
	build := []func(model.Arch, model.Params, lower.Options) (*onnxpb.ModelProto, error){lower.Classifier, lower.Score, lower.ClassScore}[kind]
	return build(m.bundle.Arch, m.bundle.Params, lower.Options{ParamsAsInputs: true})
}

// open makes a session over a graph of the model. Its calls run on one thread each: parallelism comes from running
// several at once.
func (m *liveModel) open(rt *ort.Runtime, kind int) (*ort.Session, error) {
	graph, err := m.graph(kind)
	if err != nil {
		return nil, err
	}
	data, err := ir.Marshal(graph)
	if err != nil {
		return nil, err
	}
	s, err := rt.Session(data, ort.SessionOptions{Threads: 1})
	if err == nil {
		m.sessions = append(m.sessions, s)
	}
	return s, err
}

func (m *liveModel) addDensity(plain, byClass *ort.Session) error {
	var d density
	var err error
	shape, k := m.bundle.Arch.Input, m.bundle.Arch.Classes
	if d.plain, err = langevin.NewONNX(plain, shape, k, false, m.params, m.names); err != nil {
		return err
	}
	m.closers = append(m.closers, d.plain)
	if byClass != nil {
		if d.byClass, err = langevin.NewONNX(byClass, shape, k, true, m.params, m.names); err != nil {
			return err
		}
		m.closers = append(m.closers, d.byClass)
	}
	m.densities = append(m.densities, d)
	return nil
}

// predictor gives logits with the current weights, in batches of a fixed size.
func (m *liveModel) predictor(rt *ort.Runtime) (func(ctx context.Context, x []float32) ([]float32, error), error) {
	s, err := m.open(rt, graphLogits)
	if err != nil {
		return nil, err
	}
	call, err := s.Bind(append([]string{"x"}, m.names...), []string{"logits"})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, x []float32) ([]float32, error) {
		var logits []float32
		width := m.bundle.Arch.Size()
		for n := len(x) / width; n > 0; n = len(x) / width {
			rows, batch := min(n, 256), min(n, 256)
			if m.foreign != nil && m.foreign.Batch > 0 {
				batch = m.foreign.Batch
				rows = min(n, batch)
			}
			z, err := m.logits(ctx, call, x[:rows*width], batch)
			if err != nil {
				return nil, err
			}
			logits, x = append(logits, z[:rows*m.bundle.Arch.Classes]...), x[rows*width:]
		}
		return logits, nil
	}, nil
}

// logits runs a batch whose rows behind those of x are zeros.
func (m *liveModel) logits(ctx context.Context, call *ort.Call, x []float32, rows int) ([]float32, error) {
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
	if err := call.Run(ctx, append([]*ort.Tensor{in}, m.params...), []*ort.Tensor{out}); err != nil {
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
	for _, t := range m.params {
		t.Close()
	}
}

// density picks the graph by whether chains have classes.
type density struct{ plain, byClass *langevin.ONNX }

func (d density) Gradient(ctx context.Context, x []float32, classes []int32, logp []float64, grad []float32) error {
	if classes != nil {
		return d.byClass.Gradient(ctx, x, classes, logp, grad)
	}
	return d.plain.Gradient(ctx, x, nil, logp, grad)
}

func batchShape(n int, shape []int) []int64 {
	out := []int64{int64(n)}
	for _, d := range shape {
		out = append(out, int64(d))
	}
	return out
}
