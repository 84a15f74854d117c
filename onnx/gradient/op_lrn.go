package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// lrnGradient: y_i = x_i S_i^-beta with S_i = bias + alpha mean of x_j^2 over a window of channels around i (with zeros
// beyond the ends), so x_i gets dy_i S_i^-beta - 2 alpha beta x_i mean of dy_j y_j / S_j over the windows j that hold i.
// A pooling over the channels gives the means.
func lrnGradient(c *Context) error {
	size := ir.AttrInt(c.Node, "size", 1)
	alpha, beta := float64(ir.AttrFloat(c.Node, "alpha", 1e-4)), float64(ir.AttrFloat(c.Node, "beta", 0.75))
	before, after := (size-1)/2, size-1-(size-1)/2
	x, y, dy := c.channelImage(c.In(0)), c.channelImage(c.Out(0)), c.channelImage(c.Grad(0))
	window := func(v string, before, after int64) string {
		out := c.OpWith("AveragePool", []string{v}, ir.Ints("kernel_shape", size, 1), ir.Ints("pads", before, 0, after, 0), ir.Int("count_include_pad", 1))
		c.set(out, c.types[v]) // the padding makes up for the window
		return out
	}
	sums := c.Op("Add", c.Scale(window(c.Op("Mul", x, x), before, after), alpha), c.Scalar(x, float64(ir.AttrFloat(c.Node, "bias", 1))))
	direct := c.Op("Mul", dy, c.Op("Pow", sums, c.Scalar(x, -beta)))
	through := window(c.Op("Div", c.Op("Mul", dy, y), sums), after, before)
	c.SetGrad(0, c.ReshapeLike(c.Op("Sub", direct, c.Op("Mul", x, c.Scale(through, 2*alpha*beta))), c.In(0)))
	return nil
}

// channelImage gives a value of shape (batch, channels, ...) the shape (batch, 1, channels, rest).
func (c *Context) channelImage(v string) string { return c.Unsqueeze(c.channelRows(v, 0), []int64{1}) }
