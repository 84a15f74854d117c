package lower

import (
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// layers adds the network from the input in model space to the logits. Nodes are called like their layers.
func (b *builder) layers() error {
	shapes, err := b.arch.Shapes()
	if err != nil {
		return err
	}
	x, in := b.modelX, b.arch.Input
	for i, l := range b.arch.Layers {
		if i == b.arch.Features() {
			b.features, b.featureWidth = x, in[0]
		}
		x = b.layer(l, x, in, b.valueName(i))
		in = shapes[i]
	}
	if x != OutputLogits { // the last layer was a flatten without an effect, or there is no layer
		b.g.AddNamed(OutputLogits, "Identity", []string{x}, []string{OutputLogits})
	}
	return nil
}

// valueName is the name of a layer's output.
func (b *builder) valueName(i int) string {
	switch {
	case i == len(b.arch.Layers)-1:
		return OutputLogits
	case i == b.arch.Features()-1:
		return OutputFeatures
	}
	return b.g.Unique(b.arch.Layers[i].Name)
}

func (b *builder) layer(l model.Layer, x string, in []int, out string) string {
	weights := []string{x, l.Name + ".weight", l.Name + ".bias"}
	k, s, p := int64(l.Kernel), int64(l.Stride), int64(l.Pad)
	switch l.Kind {
	case model.Conv:
		return b.add(l.Name, "Conv", weights, out, ir.Ints("kernel_shape", k, k), ir.Ints("strides", s, s), ir.Ints("pads", p, p, p, p))
	case model.Dense:
		return b.add(l.Name, "Gemm", weights, out)
	case model.Flatten:
		if len(in) == 1 {
			return x
		}
		return b.add(l.Name, "Flatten", []string{x}, out, ir.Int("axis", 1))
	}
	return b.activation(l, x, out)
}

func (b *builder) activation(l model.Layer, x, out string) string {
	switch l.Func {
	case model.SiLU:
		gate := b.g.Unique(l.Name + ".sigmoid")
		b.add(gate, "Sigmoid", []string{x}, gate)
		return b.add(l.Name, "Mul", []string{x, gate}, out)
	case model.LeakyReLU:
		return b.add(l.Name, "LeakyRelu", []string{x}, out, ir.Float("alpha", model.LeakySlope))
	case model.ReLU:
		return b.add(l.Name, "Relu", []string{x}, out)
	case model.Tanh:
		return b.add(l.Name, "Tanh", []string{x}, out)
	}
	return b.add(l.Name, "Softplus", []string{x}, out)
}

func (b *builder) add(name, op string, inputs []string, out string, attrs ...*onnxpb.AttributeProto) string {
	b.g.AddNamed(name, op, inputs, []string{out}, attrs...)
	return out
}
