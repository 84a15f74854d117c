package gradient

// reduceSumSquareGradient: y = sum x^2, so x gets 2 dy x.
func reduceSumSquareGradient(c *Context) error {
	if v, ok := c.Uniform(0); ok {
		c.SetGrad(0, c.Scale(c.In(0), 2*v))
		return nil
	}
	c.SetGrad(0, c.Op("Mul", c.In(0), c.unreduced(c.reduction(), c.Scale(c.Grad(0), 2))))
	return nil
}
