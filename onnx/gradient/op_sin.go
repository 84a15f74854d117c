package gradient

// sinGradient: y = sin(x), so x gets dy cos(x).
func sinGradient(c *Context) error {
	c.multiplied(c.Op("Cos", c.In(0)))
	return nil
}

// cosGradient: y = cos(x), so x gets -dy sin(x).
func cosGradient(c *Context) error {
	c.multiplied(c.Op("Neg", c.Op("Sin", c.In(0))))
	return nil
}

// tanGradient: y = tan(x), so x gets dy (1 + y^2).
func tanGradient(c *Context) error {
	y := c.Out(0)
	c.multiplied(c.squarePlus(y, 1))
	return nil
}
