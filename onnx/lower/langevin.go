package lower

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Names of the inputs and of the first output of a Langevin graph. Its other names are InputTarget and OutputEnergy.
const (
	InputX0       = "x0"
	InputNoise    = "noise"
	InputStepSize = "step_size"
	OutputX       = "x"
)

// MetaAffine is the metadata entry of a Langevin graph with the map from raw values to model space, see Affine.
const MetaAffine = "model_space"

// Walk is the update rule that is built into a Langevin graph: x <- clamp(x + step clip(g) + std noise).
type Walk struct {
	GradClip    float64 // bound on each element of the gradient; 0: none
	NoiseStd    float64 // std, where Temperature is 0
	Temperature float64 // above 0: std = sqrt(2 step Temperature)
	Clamp       bool    // keep x in [Lo, Hi]
	Lo, Hi      float64
}

// Langevin is the graph of S updates of the stochastic gradient Langevin dynamics of a network in one call, for
// accelerators: the chain stays on the device. Everything is in model space and float32; N and S are free. Inputs:
// x0 [N, arch.Input...], noise [S, N, arch.Input...] drawn from N(0, 1), step_size [S] of each update and, with target
// set, target [N, K], one-hot at the class whose log p(x, y) is followed. Outputs: x [N, arch.Input...] after S updates,
// and energy [S, N] of the states before each update: -logsumexp(logits), or minus the logit of the target.
//
// The body is the graph of Score or ClassScore. Its parameters are constants within the body, so that ONNX Runtime can
// lay them out once, or with ParamsAsInputs inputs behind the others. The metadata has MetaAffine where the options have
// a preprocessing, which is not built in.
func Langevin(a model.Arch, p model.Params, o Options, w Walk, target bool) (*onnxpb.ModelProto, error) {
	inside := Options{ParamsAsInputs: o.ParamsAsInputs}
	build := Score
	if target {
		build = ClassScore
	}
	m, err := build(a, p, inside)
	if err != nil {
		return nil, err
	}
	if err := AddWalk(m, w); err != nil {
		return nil, fmt.Errorf("model %s: %w", a.Name, err)
	}
	meta := map[string]string{}
	if o.Preprocess != nil {
		if meta[MetaAffine], err = o.Preprocess.Affine(a.Input); err != nil {
			return nil, fmt.Errorf("model %s: preprocessing: %w", a.Name, err)
		}
	}
	ir.SetMetadata(m, meta)
	ir.SetMetadata(m, o.Metadata)
	return m, nil
}

// AddWalk turns a score graph in model space into the Langevin graph around it. The score graph has the input x
// [N, ...], perhaps the input target, any inputs behind these, and the values score [N, ...] and energy or logdensity
// [N] or logits [N, K]; its operator set is 11 or later.
func AddWalk(m *onnxpb.ModelProto, w Walk) error {
	if v := ir.Opset(m); v < 11 {
		return fmt.Errorf("operator set %d; the graph of several updates needs 11 or later", v)
	}
	if w.Clamp && !(w.Lo < w.Hi) {
		return fmt.Errorf("states cannot be clamped to [%g, %g]", w.Lo, w.Hi)
	}
	b, err := newWalkBuilder(m)
	if err != nil {
		return err
	}
	if err := b.body(w); err != nil {
		return err
	}
	ir.Prune(m)
	b.wrap()
	return ir.Check(m)
}

// walkBuilder makes the body of the loop in the place of the main graph and then wraps it.
type walkBuilder struct {
	m      *onnxpb.ModelProto
	g      *ir.Graph
	state  string // the input x under a name of its own
	outer  []*onnxpb.ValueInfoProto
	shape  []ir.Dim // [N, ...]
	energy string
}

func newWalkBuilder(m *onnxpb.ModelProto) (*walkBuilder, error) {
	g, err := ir.NewGraph(m)
	if err != nil {
		return nil, err
	}
	b := &walkBuilder{m: m, g: g, outer: m.Graph.Input}
	if len(b.outer) == 0 || b.outer[0].Name != InputX {
		return nil, errors.New("the score graph does not begin with the input x")
	}
	if _, b.shape, _ = ir.TensorType(b.outer[0]); len(b.shape) == 0 {
		return nil, errors.New("the shape of the input x is not stated; its first dimension must be the batch")
	}
	// A name of an outer graph must not be defined again in an inner one.
	b.state = g.Vacate(InputX)
	for _, name := range []string{InputX0, InputNoise, InputStepSize} {
		g.Vacate(name)
	}
	if g.Has(OutputEnergy) {
		b.energy = g.Vacate(OutputEnergy)
	}
	return b, nil
}

// body adds the update behind the score.
func (b *walkBuilder) body(w Walk) error {
	g := b.g
	former := g.Scope("walk/")
	defer g.Scope(former)
	if b.energy == "" {
		density, err := b.density()
		if err != nil {
			return err
		}
		b.energy = g.Add("Neg", []string{density})
	}
	noise, step := g.Unique("walk/noise"), g.Unique("walk/step_size")
	d := OutputScore
	if w.GradClip > 0 {
		var err error
		if d, err = b.clip(d, -w.GradClip, w.GradClip); err != nil {
			return err
		}
	}
	z := noise
	switch {
	case w.Temperature > 0:
		twice, err := b.scalar("twice_temperature", 2*w.Temperature)
		if err != nil {
			return err
		}
		z = g.Add("Mul", []string{noise, g.Add("Sqrt", []string{g.Add("Mul", []string{twice, step})})})
	case w.NoiseStd != 1:
		std, err := b.scalar("noise_std", w.NoiseStd)
		if err != nil {
			return err
		}
		z = g.Add("Mul", []string{noise, std})
	}
	next := g.Add("Add", []string{g.Add("Add", []string{b.state, g.Add("Mul", []string{d, step})}), z})
	if w.Clamp {
		var err error
		if next, err = b.clip(next, w.Lo, w.Hi); err != nil {
			return err
		}
	}
	b.m.Graph.Input = []*onnxpb.ValueInfoProto{
		ir.ValueInfo(b.state, ir.Float32, b.shape...), ir.ValueInfo(noise, ir.Float32, b.shape...), ir.ValueInfo(step, ir.Float32)}
	b.m.Graph.Output = []*onnxpb.ValueInfoProto{
		ir.ValueInfo(next, ir.Float32, b.shape...), ir.ValueInfo(b.energy, ir.Float32, b.shape[0])}
	return nil
}

// density gives the value [N] whose gradient the score is, from the logits where the graph does not have it.
func (b *walkBuilder) density() (string, error) {
	switch target := func(v *onnxpb.ValueInfoProto) bool { return v.GetName() == InputTarget }; {
	case b.g.Has(OutputLogDensity):
		return OutputLogDensity, nil
	case !b.g.Has(OutputLogits):
		return "", errors.New("the score graph gives none of energy, logdensity and logits")
	case slices.ContainsFunc(b.outer, target):
		return OutputLogDensity, AddClassDensity(b.g)
	}
	return logSumExp(b.g, OutputLogits)
}

func (b *walkBuilder) clip(x string, lo, hi float64) (string, error) {
	low, err := b.scalar("low", lo)
	if err != nil {
		return "", err
	}
	high, err := b.scalar("high", hi)
	if err != nil {
		return "", err
	}
	return b.g.Add("Clip", []string{x, low, high}), nil
}

func (b *walkBuilder) scalar(name string, v float64) (string, error) {
	t, err := ir.ScalarTensor(name, ir.Float32, v)
	if err != nil {
		return "", err
	}
	return b.g.Constant(t)
}

// wrap makes the graph so far the body of a Scan over noise and step sizes.
func (b *walkBuilder) wrap() {
	inner := b.m.Graph
	s := ir.Free("S")
	outer := &onnxpb.GraphProto{Name: inner.Name, Input: []*onnxpb.ValueInfoProto{
		ir.ValueInfo(InputX0, ir.Float32, b.shape...),
		ir.ValueInfo(InputNoise, ir.Float32, append([]ir.Dim{s}, b.shape...)...),
		ir.ValueInfo(InputStepSize, ir.Float32, s),
	}}
	outer.Input = append(outer.Input, b.outer[1:]...)
	outer.Output = []*onnxpb.ValueInfoProto{
		ir.ValueInfo(OutputX, ir.Float32, b.shape...), ir.ValueInfo(OutputEnergy, ir.Float32, s, b.shape[0])}
	inner.Name = "update"
	outer.Node = []*onnxpb.NodeProto{{
		Name: "updates", OpType: "Scan", Input: []string{InputX0, InputNoise, InputStepSize}, Output: []string{OutputX, OutputEnergy},
		Attribute: []*onnxpb.AttributeProto{ir.GraphAttr("body", inner), ir.Int("num_scan_inputs", 2)},
	}}
	b.m.Graph = outer
}

// Affine is the map from raw values to model space as JSON: with raw_shape, the shape of a raw sample, and for each value
// of a state in row-major order the place of its raw value in from (absent: the same place), model = raw scale + shift,
// so that raw = (model - shift) / scale. scale and shift have one number, or one for each value.
func (p *Preprocess) Affine(input []int) (string, error) {
	from, scale, shift, err := p.Map(input)
	if err != nil {
		return "", err
	}
	affine := struct {
		RawShape []int     `json:"raw_shape"`
		Scale    []float64 `json:"scale"`
		Shift    []float64 `json:"shift"`
		From     []int     `json:"from,omitempty"`
	}{p.SampleShape, short(scale), short(shift), nil}
	for i, at := range from {
		if i != at {
			affine.From = from
			break
		}
	}
	text, err := json.Marshal(affine)
	return string(text), err
}

// short is one number where all are equal.
func short(v []float64) []float64 {
	for _, x := range v {
		if x != v[0] {
			return v
		}
	}
	return v[:1]
}
