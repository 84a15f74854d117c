package lower

import (
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
)

// Statistics are the outputs of a graph with Options.BatchGroup for one batch normalisation: mean and biased variance
// [N/BatchGroup, C] of each group of rows, over the rows and positions of a channel.
type Statistics struct {
	Layer          string // prefix of the layer's parameters
	Mean, Variance string // names of the outputs
	Channels       int
	Count          int // values that each mean is of
}

// BatchStatistics lists the batch normalisations of a network in layer order, for groups of so many rows.
func BatchStatistics(a model.Arch, group int) ([]Statistics, error) {
	var all []Statistics
	err := a.Walk(func(l model.Placed) {
		if l.Kind == model.Norm && l.Norm == model.BatchNorm {
			all = append(all, Statistics{Layer: l.Path, Mean: l.Path + ".batch_mean", Variance: l.Path + ".batch_var",
				Channels: l.In[0], Count: group * model.Size(l.In) / l.In[0]})
		}
	})
	return all, err
}

// reserveStatistics gives the statistics that the graph puts out, and takes their names, so that no layer does.
func (b *builder) reserveStatistics() ([]Statistics, error) {
	group := b.options.BatchGroup
	if group == 0 {
		return nil, nil
	}
	if group < 0 {
		return nil, fmt.Errorf("model %s: batch statistics over groups of %d rows, want at least 1", b.arch.Name, group)
	}
	all, err := BatchStatistics(b.arch, group)
	for _, s := range all {
		if s.Count < 2 {
			return nil, fmt.Errorf("model %s: layer %s: batch normalisation: one row of one position has no variance: use larger batches or another norm", b.arch.Name, s.Layer)
		}
		for _, name := range []string{s.Mean, s.Variance} {
			if b.g.Unique(name) != name {
				return nil, fmt.Errorf("model %s: layer %s: the name %s is taken: rename the layer", b.arch.Name, s.Layer, name)
			}
		}
	}
	return all, err
}

// statistics makes outputs of the batch statistics. It comes before a gradient is added, which drops what no output needs.
func (b *builder) statistics() {
	for _, s := range b.stats {
		for _, name := range []string{s.Mean, s.Variance} {
			b.g.Output(name, ir.Float32, ir.Free("groups"), ir.Fixed(int64(s.Channels)))
		}
	}
}

// norm adds a normalisation.
func (b *builder) norm(l model.Placed, x, out string) (string, error) {
	weight, bias := l.Path+".weight", l.Path+".bias"
	epsilon := ir.Float("epsilon", model.NormEpsilon)
	switch {
	case l.Norm == model.BatchNorm && b.options.BatchGroup > 0:
		return b.batchNorm(l, x, out)
	case l.Norm == model.BatchNorm:
		inputs := []string{x, weight, bias, l.Path + ".running_mean", l.Path + ".running_var"}
		return b.add(l.Path, "BatchNormalization", inputs, out, epsilon), nil
	case l.Norm == model.InstanceNorm:
		return b.add(l.Path, "InstanceNormalization", []string{x, weight, bias}, out, epsilon), nil
	}
	return b.groupNorm(l, x, out)
}

// groupNorm standardises groups of channels as the instances of an image of one row, and applies weight and bias to the
// channels: the operator GroupNormalization is younger than Opset.
func (b *builder) groupNorm(l model.Placed, x, out string) (string, error) {
	groups := l.NormGroups(l.In[0])
	var names [2]string // the identity as weight and bias
	for i := range names {
		name, err := b.g.Constant(ir.Float32Tensor([]string{"ones", "zeros"}[i], []int64{int64(groups)}, slices.Repeat([]float32{float32(1 - i)}, groups)))
		if err != nil {
			return "", err
		}
		names[i] = name
	}
	split, err := b.reshape(l, "groups", x, 0, int64(groups), -1)
	if err != nil {
		return "", err
	}
	h := b.stepWith(l.Path, "standard", "InstanceNormalization", []string{split, names[0], names[1]}, ir.Float("epsilon", model.NormEpsilon))
	joined, err := b.reshape(l, "channels", h, append([]int64{0}, sizes(l.In)...)...)
	if err != nil {
		return "", err
	}
	return b.affine(l, joined, out)
}

// affine multiplies the channels of a value [N, C, ...] by the layer's weight and adds its bias.
func (b *builder) affine(l model.Placed, x, out string) (string, error) {
	weight, bias := l.Path+".weight", l.Path+".bias"
	if len(l.In) == 3 {
		var err error
		if weight, err = b.reshape(l, "slope", weight, int64(l.In[0]), 1, 1); err != nil {
			return "", err
		}
		if bias, err = b.reshape(l, "offset", bias, int64(l.In[0]), 1, 1); err != nil {
			return "", err
		}
	}
	return b.add(l.Path, "Add", []string{b.step(l.Path, "times", "Mul", x, weight), bias}, out), nil
}

// reshape adds a Reshape inside a layer.
func (b *builder) reshape(l model.Placed, name, x string, shape ...int64) (string, error) {
	to, err := b.g.Constant(ir.Int64Tensor(name, shape...))
	if err != nil {
		return "", err
	}
	return b.step(l.Path, name, "Reshape", x, to), nil
}

// batchNorm normalises each group of rows by its own mean and variance, in single operators: the operator
// BatchNormalization has no groups, and in training no gradient.
func (b *builder) batchNorm(l model.Placed, x, out string) (string, error) {
	group, c := int64(b.options.BatchGroup), int64(l.In[0])
	rows, err := b.reshape(l, "rows", x, -1, group, c, int64(model.Size(l.In[1:])))
	if err != nil {
		return "", err
	}
	over := ir.Ints("axes", 1, 3)
	mean := b.stepWith(l.Path, "mean", "ReduceMean", []string{rows}, over, ir.Int("keepdims", 1))
	centred := b.step(l.Path, "centred", "Sub", rows, mean)
	square := b.step(l.Path, "square", "Mul", centred, centred)
	variance := b.stepWith(l.Path, "variance", "ReduceMean", []string{square}, over, ir.Int("keepdims", 1))
	epsilon, err := b.g.Constant(ir.Float32Tensor("epsilon", nil, []float32{model.NormEpsilon}))
	if err != nil {
		return "", err
	}
	deviation := b.step(l.Path, "deviation", "Sqrt", b.step(l.Path, "positive", "Add", variance, epsilon))
	joined, err := b.reshape(l, "channels", b.step(l.Path, "standard", "Div", centred, deviation), append([]int64{-1}, sizes(l.In)...)...)
	if err != nil {
		return "", err
	}
	flat, err := b.g.Constant(ir.Int64Tensor("flat", -1, c))
	if err != nil {
		return "", err
	}
	for _, v := range [][2]string{{mean, l.Path + ".batch_mean"}, {variance, l.Path + ".batch_var"}} {
		b.add(v[1], "Reshape", []string{v[0], flat}, v[1])
	}
	return b.affine(l, joined, out)
}
