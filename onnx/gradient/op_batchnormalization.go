package gradient

import (
	"errors"

	"github.com/jempipe/jempipe/onnx/ir"
)

// batchNormalizationGradient: y = (x - mean) k + bias for each channel, with k = scale r and r = 1 / sqrt(var + epsilon),
// where mean and var are inputs. So with the sums D = sum dy and S = sum dy (x - mean) over a channel
//
//	x gets dy k, scale gets S r, bias gets D, mean gets -D k, var gets -S k r^2 / 2.
func batchNormalizationGradient(c *Context) error {
	if c.trains() {
		return errors.New("in training mode it depends on the whole batch and is not supported: export the model in evaluation mode (in PyTorch, model.eval() before the export)")
	}
	if c.Needs(0) && !c.Type(0).Ranked {
		c.SetGrad(0, c.normaliseGrad())
	} else if c.Needs(0) {
		c.SetGrad(0, c.Op("Mul", c.Grad(0), c.alongChannels(c.channelFactor())))
	}
	if c.Needs(2) || c.Needs(3) {
		total := c.channelSum(c.Grad(0))
		c.setParam(2, total)
		if c.Needs(3) {
			c.setParam(3, c.Op("Neg", c.Op("Mul", total, c.channelFactor())))
		}
	}
	if c.Needs(1) || c.Needs(4) {
		centred := c.Op("Sub", c.In(0), c.alongChannels(c.param(3)))
		s := c.Op("Mul", c.channelSum(c.Op("Mul", c.Grad(0), centred)), c.channelInverse())
		c.setParam(1, s)
		if c.Needs(4) {
			c.setParam(4, c.Scale(c.Op("Mul", s, c.Op("Mul", c.channelFactor(), c.channelInverse())), -0.5))
		}
	}
	return nil
}

// param is a parameter in the type of the data, which may be narrower from operator set 15 on.
func (c *Context) param(i int) string { return c.inType(c.In(i), c.In(0)) }

func (c *Context) setParam(i int, v string) {
	if c.Needs(i) {
		c.SetGrad(i, c.inType(v, c.In(i)))
	}
}

// channelInverse is 1 / sqrt(var + epsilon). Of constant parameters it is a constant, which ONNX Runtime finds at the
// start.
func (c *Context) channelInverse() string {
	return c.Op("Reciprocal", c.Op("Sqrt", c.Op("Add", c.param(4), c.Scalar(c.In(0), c.epsilon()))))
}

func (c *Context) channelFactor() string { return c.Op("Mul", c.param(1), c.channelInverse()) }

// channelSum sums over all axes that the parameters do not have.
func (c *Context) channelSum(v string) string { return c.ReduceSum(v, c.channelAxes(), false) }

// normaliseGrad is the gradient of an input of unknown rank: the operator itself without mean and bias multiplies dy by
// the channel's factor.
func (c *Context) normaliseGrad() string {
	bias, mean := c.Op("Sub", c.In(2), c.In(2)), c.Op("Sub", c.In(3), c.In(3))
	inputs := []string{c.Grad(0), c.In(1), bias, mean, c.In(4)}
	return c.OpWith("BatchNormalization", inputs, c.Node.Attribute...)
}

// trains says that a batch normalisation takes the mean and variance from its batch: until operator set 13 by
// giving them as outputs.
func (c *Context) trains() bool {
	if c.opset >= 14 {
		return ir.AttrInt(c.Node, "training_mode", 0) != 0
	}
	return c.Out(1) != ""
}

// perElement says that the parameters have the shape of a whole example, as operator set 7 allows.
func (c *Context) perElement() bool { return c.opset < 9 && ir.AttrInt(c.Node, "spatial", 1) == 0 }

// channelAxes are the axes that a batch normalisation's parameters do not have.
func (c *Context) channelAxes() []int64 {
	axes := []int64{0}
	for i := 2; i < c.Rank(c.In(0)) && !c.perElement(); i++ {
		axes = append(axes, int64(i))
	}
	return axes
}

// alongChannels gives a parameter the shape in which it broadcasts to the input.
func (c *Context) alongChannels(v string) string {
	if c.perElement() {
		return v
	}
	axes := c.channelAxes()[1:]
	for i := range axes {
		axes[i] = int64(i + 1)
	}
	return c.Unsqueeze(v, axes)
}

// inType converts a value to the floating-point type of another one where that differs.
func (c *Context) inType(x, like string) string {
	if from := c.types[x].Elem; from == 0 || from == c.types[like].Elem {
		return x
	}
	return c.castLike(x, like)
}

func inferBatchNormalization(s *Site) []Type {
	mean, variance := s.Type(3), s.Type(4)
	return []Type{s.Type(0), mean, variance, mean, variance}
}
