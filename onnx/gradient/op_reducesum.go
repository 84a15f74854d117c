package gradient

// reduceSumGradient: y = sum x, so every element of x gets the dy of its sum.
func reduceSumGradient(c *Context) error {
	if v, ok := c.Uniform(0); ok {
		c.SetUniform(0, v)
		return nil
	}
	r := c.reduction()
	if r.none {
		c.SetGrad(0, c.Grad(0))
		return nil
	}
	c.SetGrad(0, c.ExpandLike(c.unreduced(r, c.Grad(0)), c.In(0)))
	return nil
}
