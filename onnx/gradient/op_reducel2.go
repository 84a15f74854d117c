package gradient

// reduceL2Gradient: y = sqrt(sum x^2), so x gets dy x / y; 0 where all x are 0.
func reduceL2Gradient(c *Context) error {
	ratio := c.Op("Div", c.Grad(0), c.atLeastTiny(c.Out(0)))
	c.SetGrad(0, c.Op("Mul", c.In(0), c.unreduced(c.reduction(), ratio)))
	return nil
}
