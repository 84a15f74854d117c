package gradient

// shrinkGradient: y = x - bias for x > lambd, x + bias for x < -lambd, else 0, so x gets dy where |x| > lambd.
func shrinkGradient(c *Context) error {
	size := c.Op("Abs", c.In(0))
	mask := c.between(size, c.Scalar(size, c.float("lambd", 0.5)), "")
	c.multiplied(mask)
	return nil
}
