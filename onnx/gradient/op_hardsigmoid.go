package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// hardSigmoidGradient: y = max(0, min(1, alpha x + beta)), so x gets alpha dy where 0 < y < 1, else 0; at the two kinks
// 0 is taken.
func hardSigmoidGradient(c *Context) error {
	inside := c.inUnit(c.Out(0))
	c.multiplied(c.Scale(inside, c.float("alpha", 0.2)))
	return nil
}

// hardSwishGradient: y = x s with s = max(0, min(1, x / 6 + 1 / 2)), so x gets dy (s + x / 6) where 0 < s < 1, else dy s.
func hardSwishGradient(c *Context) error {
	x := c.In(0)
	s := c.OpWith("HardSigmoid", []string{x}, ir.Float("alpha", 1./6), ir.Float("beta", 0.5))
	rest := c.Op("Mul", c.inUnit(s), c.Scale(x, 1./6))
	c.multiplied(c.Op("Add", s, rest))
	return nil
}

// inUnit is 1 where 0 < x < 1, else 0.
func (c *Context) inUnit(x string) string { return c.between(x, c.Scalar(x, 0), c.Scalar(x, 1)) }
