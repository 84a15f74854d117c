package gradient

// reciprocalGradient: y = 1 / x, so x gets -dy y^2.
func reciprocalGradient(c *Context) error {
	y := c.Out(0)
	c.multiplied(c.Op("Neg", c.Op("Mul", y, y)))
	return nil
}
