package gradient

// divGradient: y = a / b, so a gets dy / b and b gets -y dy / b.
func divGradient(c *Context) error {
	share := c.Op("Div", c.Grad(0), c.In(1))
	c.SetBroadcast(0, share)
	if c.Needs(1) {
		c.SetGrad(1, c.Op("Neg", c.reduceTo(c.Op("Mul", c.Out(0), share), c.In(1))))
	}
	return nil
}
