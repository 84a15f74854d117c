// Package lower turns a network of package model into ONNX graphs: the classifier, and the graphs of the gradients of
// its log densities. Equal arguments give equal models, byte for byte once marshalled.
package lower

import (
	"fmt"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/gradient"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// The versions that models are written against: the lowest that have every operator in the form used here, so that
// ONNX Runtime from 1.12 on reads them.
const (
	Opset     = 17
	IRVersion = 8
)

// Producer is the producer_name of the models.
const Producer = "jempipe"

// Names of the inputs and outputs of the graphs, and of the value in model space that the score belongs to.
const (
	InputX           = "x"
	InputTarget      = "target"
	OutputLogits     = "logits"
	OutputEnergy     = "energy"
	OutputFeatures   = "features"
	OutputScore      = "score"
	OutputLogDensity = "logdensity"
	ModelX           = "x_model"
	LogSumExp        = "logsumexp"
)

// Options say what is built around the network.
type Options struct {
	Preprocess     *Preprocess       // nil: the input is in model space, [N, arch.Input...]
	ParamsAsInputs bool              // the parameters are graph inputs behind the others, in the order of Arch.Params
	Refit          bool              // the graph is for package refit: its weights will change
	Metadata       map[string]string // entries of metadata_props
	// BatchGroup is the number of rows that share the statistics of a batch normalisation, for training: N must be a
	// multiple, running statistics are no parameters of the graph, and those of BatchStatistics are further outputs. 0:
	// batch normalisations use running statistics. Without batch normalisation it has no effect.
	BatchGroup int
}

// Classifier is the graph of the network: input x [N, ...], outputs logits [N, K], energy [N] = -logsumexp(logits), and,
// where the network has a dense layer, features [N, F], the input of the last one. All are float32 and N is free. The
// parameters are not needed with ParamsAsInputs.
func Classifier(a model.Arch, p model.Params, o Options) (*onnxpb.ModelProto, error) {
	b, err := newBuilder(a, p, o)
	if err != nil {
		return nil, err
	}
	if err := AddEnergy(b.g); err != nil {
		return nil, err
	}
	b.output(OutputLogits, a.Classes)
	b.output(OutputEnergy)
	if i := a.Features(); i >= 0 {
		if b.features != OutputFeatures {
			b.g.AddNamed(OutputFeatures, "Identity", []string{b.features}, []string{OutputFeatures})
		}
		b.output(OutputFeatures, b.featureWidth)
	}
	b.statistics()
	return b.finish()
}

// Score is the classifier with the gradient of its log density: outputs logits [N, K], energy [N] and score
// [N, arch.Input...] = d logsumexp(logits) / dx for x in model space.
func Score(a model.Arch, p model.Params, o Options) (*onnxpb.ModelProto, error) {
	b, err := newBuilder(a, p, o)
	if err != nil {
		return nil, err
	}
	if err := AddEnergy(b.g); err != nil {
		return nil, err
	}
	b.output(OutputLogits, a.Classes)
	b.output(OutputEnergy)
	b.statistics()
	if err := b.score(LogSumExp); err != nil {
		return nil, err
	}
	return b.finish()
}

// ClassScore is the gradient of the joint log density log p(x, y) + log Z = sum over k of target[k] logits[k], where the
// second input target [N, K] is one-hot at y: outputs logits [N, K], logdensity [N] and score [N, arch.Input...].
func ClassScore(a model.Arch, p model.Params, o Options) (*onnxpb.ModelProto, error) {
	b, err := newBuilder(a, p, o, extra{InputTarget, []int{a.Classes}})
	if err != nil {
		return nil, err
	}
	if err := AddClassDensity(b.g); err != nil {
		return nil, err
	}
	b.output(OutputLogits, a.Classes)
	b.output(OutputLogDensity)
	b.statistics()
	if err := b.score(OutputLogDensity); err != nil {
		return nil, err
	}
	return b.finish()
}

// AddClassDensity adds logdensity [N] = sum over k of target[k] logits[k] to a graph that has target and logits [N, K].
func AddClassDensity(g *ir.Graph) error {
	chosen := g.Unique("chosen")
	g.AddNamed(chosen, "Mul", []string{InputTarget, OutputLogits}, []string{chosen})
	inputs, attrs := []string{chosen}, []*onnxpb.AttributeProto{ir.Int("keepdims", 0)}
	if ir.Opset(g.Model) < 13 {
		attrs = append(attrs, ir.Ints("axes", 1))
	} else {
		axes, err := g.Constant(ir.Int64Tensor("class_axis", 1))
		if err != nil {
			return err
		}
		inputs = append(inputs, axes)
	}
	g.AddNamed(OutputLogDensity, "ReduceSum", inputs, []string{OutputLogDensity}, attrs...)
	return nil
}

// builder is one graph in the making.
type builder struct {
	arch         model.Arch
	options      Options
	g            *ir.Graph
	modelX       string // the network's input in model space
	features     string // the input of the last dense layer
	featureWidth int
	stats        []Statistics // outputs for batch normalisations, in layer order
}

// extra is a graph input behind x, [N, shape...].
type extra struct {
	name  string
	shape []int
}

func newBuilder(a model.Arch, p model.Params, o Options, more ...extra) (*builder, error) {
	specs, err := a.Params()
	if err != nil {
		return nil, err
	}
	g, err := ir.NewGraph(ir.NewModel(a.Name, IRVersion, Opset))
	if err != nil {
		return nil, err
	}
	b := &builder{arch: a, options: o, g: g}
	if err := b.inputs(specs, p, more); err != nil {
		return nil, err
	}
	for _, name := range []string{OutputLogits, OutputEnergy, OutputFeatures, OutputScore, OutputLogDensity, LogSumExp} {
		g.Unique(name) // so that no layer takes it
	}
	if b.stats, err = b.reserveStatistics(); err != nil {
		return nil, err
	}
	b.modelX = InputX
	if p := o.Preprocess; p != nil {
		if b.modelX, err = p.Add(g, InputX, a.Input, ModelX); err != nil {
			return nil, fmt.Errorf("model %s: preprocessing: %w", a.Name, err)
		}
	}
	return b, b.layers()
}

// omitted says that a parameter has no place in the graph.
func (b *builder) omitted(s model.Param) bool { return s.State && b.options.BatchGroup > 0 }

// inputs adds x, what comes behind it, and the parameters.
func (b *builder) inputs(specs []model.Param, p model.Params, more []extra) error {
	shape := b.arch.Input
	if b.options.Preprocess != nil {
		shape = b.options.Preprocess.SampleShape
	}
	if err := b.g.Input(InputX, ir.Float32, rows(shape)...); err != nil {
		return err
	}
	for _, e := range more {
		if err := b.g.Input(e.name, ir.Float32, rows(e.shape)...); err != nil {
			return err
		}
	}
	if b.options.ParamsAsInputs {
		for _, s := range specs {
			if b.omitted(s) {
				continue
			}
			if err := b.g.Input(s.Name, ir.Float32, ir.FixedDims(sizes(s.Shape)...)...); err != nil {
				return err
			}
		}
		return nil
	}
	if err := p.Check(b.arch); err != nil {
		return err
	}
	for i, t := range p {
		if b.omitted(specs[i]) {
			continue
		}
		if err := b.g.Initializer(ir.Float32Tensor(t.Name, sizes(t.Shape), t.Data)); err != nil {
			return err
		}
	}
	return nil
}

// AddEnergy adds energy [N] = -logsumexp(logits) to a graph that has logits [N, K], and the value logsumexp [N].
func AddEnergy(g *ir.Graph) error {
	lse, err := reduce(g, "ReduceLogSumExp", OutputLogits)
	if err != nil {
		return err
	}
	if err := g.Rename(lse, LogSumExp); err != nil {
		return err
	}
	g.Model.Graph.Node[len(g.Model.Graph.Node)-1].Name = LogSumExp
	g.AddNamed(OutputEnergy, "Neg", []string{LogSumExp}, []string{OutputEnergy})
	return nil
}

// score adds the gradient of the sum of a log density over the rows, which is that of each row.
func (b *builder) score(of string) error {
	if err := addGradient(b.g.Model, b.options.differentiate(), of, b.modelX, OutputScore, rows(b.arch.Input)...); err != nil {
		return fmt.Errorf("model %s: %w", b.arch.Name, err)
	}
	return nil
}

// differentiate is the function that adds gradients.
func (o Options) differentiate() differentiate {
	if o.Refit {
		return gradient.GradientForRefit
	}
	return gradient.Gradient
}

func (b *builder) output(name string, shape ...int) {
	b.g.Output(name, ir.Float32, rows(shape)...)
}

func (b *builder) finish() (*onnxpb.ModelProto, error) {
	m := b.g.Model
	g, err := ir.NewGraph(m) // that knows the names of the gradient
	if err != nil {
		return nil, err
	}
	spellSoftplus(g)
	m.ProducerName = Producer
	ir.SetMetadata(m, b.options.Metadata)
	return m, ir.Check(m)
}

// rows is a shape behind the batch axis.
func rows(shape []int) []ir.Dim {
	return append([]ir.Dim{ir.Free("N")}, ir.FixedDims(sizes(shape)...)...)
}

func sizes(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, d := range shape {
		out[i] = int64(d)
	}
	return out
}
