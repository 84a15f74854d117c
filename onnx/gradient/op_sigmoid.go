package gradient

// sigmoidGradient: y = 1 / (1 + exp(-x)), so x gets dy y (1 - y).
func sigmoidGradient(c *Context) error {
	y := c.Out(0)
	slope := c.Op("Mul", y, c.complement(y))
	c.multiplied(slope)
	return nil
}
