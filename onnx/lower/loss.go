package lower

import (
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Names of the inputs of a loss graph.
const (
	InputAlpha = "alpha"
	InputBeta  = "beta"
	InputGamma = "gamma"
)

// GradientOf is the name of the output that is the gradient with respect to a parameter.
func GradientOf(param string) string { return param + ".grad" }

// Loss is the graph of the gradient of
//
//	loss = sum_r alpha_r lse_r + beta_r lse_r^2 + sum_k gamma_rk z_rk,   lse_r = log sum_k exp z_rk
//
// with respect to every parameter that is trained, where z are the logits: inputs x [N, ...], alpha [N, 1], beta [N, 1], gamma
// [N, K]; outputs logits [N, K], those of Options.BatchGroup and, for each of these parameters, GradientOf(name) in its
// shape, in the order of Arch.Params. All terms of the JEM objective are such sums, see package train.
func Loss(a model.Arch, p model.Params, o Options) (*onnxpb.ModelProto, error) {
	b, err := newBuilder(a, p, o, extra{InputAlpha, []int{1}}, extra{InputBeta, []int{1}}, extra{InputGamma, []int{a.Classes}})
	if err != nil {
		return nil, err
	}
	specs, err := a.Params()
	if err != nil {
		return nil, err
	}
	specs = slices.DeleteFunc(specs, func(s model.Param) bool { return s.State })
	b.output(OutputLogits, a.Classes)
	b.statistics()
	if err := b.addLossGradients(specs); err != nil {
		return nil, fmt.Errorf("model %s: %w", a.Name, err)
	}
	ir.Prune(b.g.Model)
	return b.finish()
}

// addLossGradients differentiates sum(logits seed) for a seed that is an input, which then is replaced by the gradient of
// the loss with respect to the logits. The loss itself is never computed.
func (b *builder) addLossGradients(specs []model.Param) error {
	m := b.g.Model
	forward := len(m.Graph.Node)
	seed := b.g.Unique("grad/logits")
	if err := b.g.Input(seed, ir.Float32, rows([]int{b.arch.Classes})...); err != nil {
		return err
	}
	of := b.g.Add("Mul", []string{OutputLogits, seed})
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
	}
	grads, err := b.options.differentiate()(m, of, names)
	if err != nil {
		return err
	}
	if b.g, err = ir.NewGraph(m); err != nil {
		return err
	}
	for i, s := range specs {
		b.g.AddNamed(GradientOf(s.Name), "Identity", []string{grads[i]}, []string{GradientOf(s.Name)})
		b.g.Output(GradientOf(s.Name), ir.Float32, ir.FixedDims(sizes(s.Shape)...)...)
	}
	m.Graph.Input = slices.DeleteFunc(m.Graph.Input, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() == seed })
	return b.addSeed(seed, forward)
}

// addSeed computes the gradient of the loss with respect to the logits, softmax(z) (alpha + 2 beta lse) + gamma, behind
// the first nodes of the graph, which are those of the network.
func (b *builder) addSeed(seed string, forward int) error {
	m := b.g.Model
	rest := slices.Clone(m.Graph.Node[forward:])
	m.Graph.Node = m.Graph.Node[:forward]
	two, err := b.g.Constant(ir.Float32Tensor("two", []int64{1, 1}, []float32{2}))
	if err != nil {
		return err
	}
	lse := b.g.Add("ReduceLogSumExp", []string{OutputLogits}, ir.Ints("axes", 1), ir.Int("keepdims", 1))
	slope := b.g.Add("Mul", []string{b.g.Add("Mul", []string{InputBeta, two}), lse})
	probabilities := b.g.Add("Softmax", []string{OutputLogits}, ir.Int("axis", 1))
	weighted := b.g.Add("Mul", []string{probabilities, b.g.Add("Add", []string{InputAlpha, slope})})
	b.g.AddNamed(seed, "Add", []string{weighted, InputGamma}, []string{seed})
	m.Graph.Node = append(m.Graph.Node, rest...)
	return nil
}
