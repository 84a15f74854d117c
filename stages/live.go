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
	plain, err := m.open(rt, lower.Score)
	if err != nil {
		return m, err
	}
	var byClass *ort.Session
	if o.conditional {
		if byClass, err = m.open(rt, lower.ClassScore); err != nil {
			return m, err
		}
	}
	for range o.densities {
		if err := m.addDensity(plain, byClass); err != nil {
			return m, err
		}
	}
	return m, nil
}

// open makes a session over a graph of the model. Its calls run on one thread each: parallelism comes from running
// several at once.
func (m *liveModel) open(rt *ort.Runtime, build func(model.Arch, model.Params, lower.Options) (*onnxpb.ModelProto, error)) (*ort.Session, error) {
	graph, err := build(m.bundle.Arch, m.bundle.Params, lower.Options{ParamsAsInputs: true})
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
	s, err := m.open(rt, lower.Classifier)
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
			rows := min(n, 256)
			z, err := m.logits(ctx, call, x[:rows*width], rows)
			if err != nil {
				return nil, err
			}
			logits, x = append(logits, z...), x[rows*width:]
		}
		return logits, nil
	}, nil
}

func (m *liveModel) logits(ctx context.Context, call *ort.Call, x []float32, rows int) ([]float32, error) {
	in, err := ort.Float32(batchShape(rows, m.bundle.Arch.Input), x)
	if err != nil {
		return nil, err
	}
	defer in.Close()
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
