package intake

import (
	"context"
	"fmt"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/onnx/gradient"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/onnx/selftest"
)

// Wanted says what Differentiate is to add.
type Wanted struct {
	Of        lower.Readout
	Wrt       string // input, constant or other value of the graph; empty: the input
	FreeBatch bool   // free a batch size that the file has built in
	Rows      int    // of the probe, uniform in [0, 1]; at least 2
	Seed      uint64 // of the probe
}

// Derived is a model file with a gradient.
type Derived struct {
	Model      *onnxpb.ModelProto
	Output     string // name of the gradient
	Classifier *Classifier
	Opset      int64            // of the file; the model's is higher where the gradient needed that
	Report     *selftest.Report // nil where the gradient is not that of samples
	Notes      []string
}

// Differentiate adds to a model of others, whose inputs and outputs stay as they are, the gradient of a readout of its
// logits. For the energy the output is called score and is the gradient of log p(x) = logsumexp f(x) = -E(x), with that
// sign; for other readouts it is called gradient. What cfg leaves open is found out as by Open, on a random probe. The
// gradient with respect to samples is tested, and one that fails is an error.
func Differentiate(ctx context.Context, rt *ort.Runtime, path string, cfg Config, want Wanted) (*Derived, error) {
	m, err := Read(path)
	if err != nil {
		return nil, err
	}
	probe, err := uniform(m, &cfg, want)
	if err != nil {
		return nil, fault.New(fault.Data, path, "%v", err)
	}
	c, err := Adapt(ctx, rt, path, ir.Clone(m), cfg, probe)
	if err != nil {
		return nil, err
	}
	if c.EnergyReason != "" {
		return nil, fault.New(fault.Data, path, "no gradient can be built: the model gives probabilities and no logits (%s)", c.From).
			Do("name a value of the graph that holds logits, if there is one")
	}
	dropSubnormals(m) // as in the classifier, whose notes tell
	d := &Derived{Model: m, Classifier: c, Opset: ir.Opset(m), Notes: c.Notes}
	z, err := d.derive(ctx, rt, path, want)
	if err != nil {
		return nil, fault.New(fault.Data, path, "%v", err)
	}
	return d, d.test(ctx, rt, path, z, want, probe)
}

// uniform makes a probe for the model's only input, in whose own shape samples are given.
func uniform(m *onnxpb.ModelProto, cfg *Config, want Wanted) ([]float32, error) {
	if cfg.Preprocess.SampleShape == nil && len(m.Graph.Input) == 1 {
		_, dims, _ := ir.TensorType(m.Graph.Input[0])
		shape, ok := fixedShape(dims[min(1, len(dims)):])
		if !ok {
			return nil, fmt.Errorf("input %s takes samples of shape %s: say which shape to try it with", m.Graph.Input[0].GetName(), dimsText(dims[min(1, len(dims)):]))
		}
		cfg.Preprocess.SampleShape = shape
	}
	cfg.Preprocess.Layout = "flat"
	probe := make([]float32, max(2, want.Rows)*size(cfg.Preprocess.SampleShape))
	rng := keyed.New(want.Seed, "gradient probe").At(0, 0)
	for i := range probe {
		probe[i] = rng.Float32()
	}
	return probe, nil
}

// derive adds the gradient to the file's own graph and gives the value of the logits, [N, K].
func (d *Derived) derive(ctx context.Context, rt *ort.Runtime, path string, want Wanted) (z string, err error) {
	m, c := d.Model, d.Classifier
	g, err := ir.NewGraph(m)
	if err != nil {
		return "", err
	}
	a := &adapter{rt: rt, file: path, m: m, g: g, c: c, form: c.form, input: m.Graph.Input[0].GetName(), names: map[string]string{}}
	if want.FreeBatch {
		if err := d.free(ctx, a); err != nil {
			return "", err
		}
	}
	columns := c.Classes
	if c.form == formOneLogit {
		columns = 1
	}
	if z, err = a.columns(a.matrix(c.source, columns)); err != nil {
		return "", err
	}
	of, err := want.Of.Add(g, z, c.Classes)
	if err != nil {
		return "", err
	}
	wrt := want.Wrt
	if wrt == "" {
		wrt = a.input
	}
	return z, d.append(of, wrt, want.Of)
}

// free frees the batch size that the file has built in, where Adapt could.
func (d *Derived) free(ctx context.Context, a *adapter) error {
	_, dims, _ := ir.TensorType(d.Model.Graph.Input[0])
	if d.Classifier.Batch > 0 || !dims[0].Set {
		return nil
	}
	a.batch = int(dims[0].Size)
	outputs := ir.Clone(d.Model).Graph.Output
	if err := a.foldSizes(ctx); err != nil {
		return err
	}
	a.freeBatch()
	freeRows(outputs, a.batch)
	d.Model.Graph.Output, d.Model.Graph.ValueInfo = outputs, nil
	d.Notes = append(d.Notes, fmt.Sprintf("its batch size of %d is free now", a.batch))
	return nil
}

// append differentiates and makes the gradient an output.
func (d *Derived) append(of, wrt string, r lower.Readout) error {
	m := d.Model
	t := gradient.Types(m)[wrt]
	grads, err := gradient.Gradient(m, of, []string{wrt})
	if err != nil {
		return err
	}
	g, err := ir.NewGraph(m)
	if err != nil {
		return err
	}
	d.Output = "gradient"
	if r.Kind == lower.Energy.Kind {
		d.Output = lower.OutputScore
	}
	for g.Has(d.Output) {
		d.Output += "_"
	}
	if err := g.Rename(grads[0], d.Output); err != nil {
		return err
	}
	if t.Elem == 0 {
		t.Elem = ir.Float32
	}
	shape := make([]ir.Dim, len(t.Shape)) // sizes that are not known have names of their own, which are of no use outside
	for i, dim := range t.Shape {
		if dim.Set {
			shape[i] = dim
		}
	}
	if in := m.Graph.Input[0]; wrt == in.GetName() {
		_, dims, _ := ir.TensorType(in)
		shape[0] = dims[0]
	}
	g.Output(d.Output, t.Elem, shape...)
	ir.Prune(m)
	return ir.Check(m)
}

// freeRows takes the batch size out of the shapes that outputs state.
func freeRows(outputs []*onnxpb.ValueInfoProto, batch int) {
	for _, v := range outputs {
		dims := v.GetType().GetTensorType().GetShape().GetDim()
		if len(dims) > 0 && dims[0].GetDimValue() == int64(batch) {
			dims[0].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "N"}
		}
	}
}

// test runs the self-test on the gradient with respect to samples.
func (d *Derived) test(ctx context.Context, rt *ort.Runtime, path, z string, want Wanted, probe []float32) error {
	in := d.Model.Graph.Input[0]
	elem, dims, _ := ir.TensorType(in)
	if want.Wrt != "" && want.Wrt != in.GetName() {
		d.Notes = append(d.Notes, fmt.Sprintf("not tested: the gradient with respect to %s belongs to the whole batch, not to samples", want.Wrt))
		return nil
	}
	if elem != ir.Float32 {
		d.Notes = append(d.Notes, fmt.Sprintf("input %s is %s, so the self-test ran the graph with a float32 input in front", in.GetName(), ir.ElemName(elem)))
		return d.testAdapted(ctx, rt, path, want, probe)
	}
	m := ir.Clone(d.Model)
	g, err := ir.NewGraph(m)
	if err != nil {
		return err
	}
	m.Graph.Output = nil
	rows := ir.Dim{}
	g.Output(z, ir.Float32, rows, ir.Fixed(int64(d.Classifier.Classes)))
	g.Output(d.Output, ir.Float32, make([]ir.Dim, len(dims))...)
	t := selftest.Graph{Name: path, Input: in.GetName(), Shape: d.Classifier.Input, Logits: z, Score: d.Output, Readout: want.Of.Of, Half: halfPrecision(d.Model)}
	if dims[0].Set {
		t.Batch = int(dims[0].Size)
	}
	return d.report(ctx, rt, m, t, want, probe)
}

// testAdapted tests the same gradient in the form that Open gives.
func (d *Derived) testAdapted(ctx context.Context, rt *ort.Runtime, path string, want Wanted, probe []float32) error {
	c := *d.Classifier
	c.Model = ir.Clone(c.Model)
	if err := c.AddScore(want.Of, true); err != nil {
		return fault.New(fault.Data, path, "%v", err)
	}
	t, err := c.TestGraph(nil, want.Of, true)
	if err != nil {
		return err
	}
	t.Name = path
	return d.report(ctx, rt, c.Model, t, want, probe)
}

func (d *Derived) report(ctx context.Context, rt *ort.Runtime, m *onnxpb.ModelProto, t selftest.Graph, want Wanted, probe []float32) error {
	data, err := ir.Marshal(m)
	if err != nil {
		return err
	}
	if t.Session, err = rt.Session(data, ort.SessionOptions{Threads: 1, Name: t.Name}); err != nil {
		return err
	}
	defer t.Session.Close()
	report, err := t.Run(ctx, probe, want.Seed)
	d.Report = &report
	return err
}
