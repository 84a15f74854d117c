package gradient

// expGradient: y = exp(x), so x gets dy y.
func expGradient(c *Context) error {
	c.SetGrad(0, c.Op("Mul", c.Grad(0), c.Out(0)))
	return nil
}
