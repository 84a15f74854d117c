package lower

import (
	"math"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// layers adds the network from the input in model space to the logits. Nodes are called like their layers.
func (b *builder) layers() error {
	placed, err := b.arch.Place()
	if err != nil {
		return err
	}
	x := b.modelX
	for i, l := range placed {
		if i == b.arch.Features() {
			b.features, b.featureWidth = x, l.In[0]
		}
		if x, err = b.layer(l, x, b.valueName(i)); err != nil {
			return err
		}
	}
	if x != OutputLogits { // the last layer was a flatten without an effect, or there is no layer
		b.g.AddNamed(OutputLogits, "Identity", []string{x}, []string{OutputLogits})
	}
	return nil
}

// valueName is the name of the output of a layer of the outermost list.
func (b *builder) valueName(i int) string {
	switch {
	case i == len(b.arch.Layers)-1:
		return OutputLogits
	case i == b.arch.Features()-1:
		return OutputFeatures
	}
	return b.g.Unique(b.arch.Layers[i].Name)
}

// branch adds the layers of a block's branch.
func (b *builder) branch(layers []model.Placed, x string) (string, error) {
	for _, l := range layers {
		var err error
		if x, err = b.layer(l, x, b.g.Unique(l.Path)); err != nil {
			return "", err
		}
	}
	return x, nil
}

// layer adds one layer and gives the name of its output, which is out unless the layer does nothing.
func (b *builder) layer(l model.Placed, x, out string) (string, error) {
	switch l.Kind {
	case model.Conv:
		return b.add(l.Path, "Conv", b.weights(l, x), out, window(l)...), nil
	case model.Dense:
		return b.add(l.Path, "Gemm", b.weights(l, x), out), nil
	case model.Flatten:
		if len(l.In) == 1 {
			return x, nil
		}
		return b.add(l.Path, "Flatten", []string{x}, out, ir.Int("axis", 1)), nil
	case model.Act:
		return b.activation(l, x, out)
	case model.Pool:
		return b.pool(l, x, out), nil
	case model.Norm:
		return b.norm(l, x, out)
	}
	body, err := b.branch(l.Body, x)
	if err != nil {
		return "", err
	}
	short, err := b.branch(l.Shortcut, x)
	if err != nil {
		return "", err
	}
	return b.add(l.Path, "Add", []string{body, short}, out), nil
}

// weights are the inputs of a convolution or dense layer.
func (b *builder) weights(l model.Placed, x string) []string {
	if l.NoBias {
		return []string{x, l.Path + ".weight"}
	}
	return []string{x, l.Path + ".weight", l.Path + ".bias"}
}

// window is the geometry of a convolution or pool.
func window(l model.Placed) []*onnxpb.AttributeProto {
	k, s, p := int64(l.Kernel), int64(l.Stride), int64(l.Pad)
	return []*onnxpb.AttributeProto{ir.Ints("kernel_shape", k, k), ir.Ints("strides", s, s), ir.Ints("pads", p, p, p, p)}
}

func (b *builder) pool(l model.Placed, x, out string) string {
	switch l.Pool {
	case model.MaxPool:
		return b.add(l.Path, "MaxPool", []string{x}, out, window(l)...)
	case model.AvgPool:
		return b.add(l.Path, "AveragePool", []string{x}, out, append(window(l), ir.Int("count_include_pad", 1))...)
	}
	return b.add(l.Path, "GlobalAveragePool", []string{x}, out)
}

func (b *builder) activation(l model.Placed, x, out string) (string, error) {
	switch l.Func {
	case model.SiLU:
		gate := b.step(l.Path, "sigmoid", "Sigmoid", x)
		return b.add(l.Path, "Mul", []string{x, gate}, out), nil
	case model.LeakyReLU:
		return b.add(l.Path, "LeakyRelu", []string{x}, out, ir.Float("alpha", model.LeakySlope)), nil
	case model.ReLU:
		return b.add(l.Path, "Relu", []string{x}, out), nil
	case model.Tanh:
		return b.add(l.Path, "Tanh", []string{x}, out), nil
	case model.ELU:
		return b.add(l.Path, "Elu", []string{x}, out, ir.Float("alpha", 1)), nil
	case model.GELU:
		return b.gelu(l, x, out)
	}
	return b.add(l.Path, "Softplus", []string{x}, out), nil
}

// gelu writes x (1 + erf(x / sqrt 2)) / 2 in the form that ONNX Runtime fuses: the operator Gelu is younger than Opset.
func (b *builder) gelu(l model.Placed, x, out string) (string, error) {
	var n [3]string
	for i, v := range []float32{math.Sqrt2, 1, .5} {
		name, err := b.g.Constant(ir.Float32Tensor([]string{"sqrt2", "one", "half"}[i], nil, []float32{v}))
		if err != nil {
			return "", err
		}
		n[i] = name
	}
	e := b.step(l.Path, "erf", "Erf", b.step(l.Path, "scaled", "Div", x, n[0]))
	twice := b.step(l.Path, "twice", "Mul", x, b.step(l.Path, "shifted", "Add", e, n[1]))
	return b.add(l.Path, "Mul", []string{twice, n[2]}, out), nil
}

// step adds a node inside a layer, called like both, and gives its output.
func (b *builder) step(layer, name, op string, inputs ...string) string {
	return b.stepWith(layer, name, op, inputs)
}

func (b *builder) stepWith(layer, name, op string, inputs []string, attrs ...*onnxpb.AttributeProto) string {
	out := b.g.Unique(layer + "." + name)
	return b.add(out, op, inputs, out, attrs...)
}

func (b *builder) add(name, op string, inputs []string, out string, attrs ...*onnxpb.AttributeProto) string {
	b.g.AddNamed(name, op, inputs, []string{out}, attrs...)
	return out
}
