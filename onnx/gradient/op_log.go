package gradient

// logGradient: y = log(x), so x gets dy / x.
func logGradient(c *Context) error {
	c.SetGrad(0, c.Op("Div", c.Grad(0), c.In(0)))
	return nil
}
