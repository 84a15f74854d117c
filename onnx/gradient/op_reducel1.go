package gradient

// reduceL1Gradient: y = sum |x|, so x gets dy sign(x); 0 at 0.
func reduceL1Gradient(c *Context) error {
	signs := c.signs(c.In(0))
	if v, ok := c.Uniform(0); ok {
		c.SetGrad(0, c.Scale(signs, v))
		return nil
	}
	c.SetGrad(0, c.Op("Mul", signs, c.unreduced(c.reduction(), c.Grad(0))))
	return nil
}
