package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// leakyReluGradient: y = x for x > 0, else alpha x, so x gets dy or alpha dy. At x = 0 the slope alpha is taken.
func leakyReluGradient(c *Context) error {
	alpha := float64(ir.AttrFloat(c.Node, "alpha", 0.01))
	sign := c.Out(0) // has the sign of x for alpha > 0, and lets the forward operator be fused
	if alpha <= 0 {
		sign = c.In(0)
	}
	slope := c.Op("Add", c.Scale(c.positive(sign), 1-alpha), c.Scalar(sign, alpha))
	c.SetGrad(0, c.Op("Mul", c.Grad(0), slope))
	return nil
}
