package gradient

// asinGradient: y = asin(x), so x gets dy / sqrt(1 - x^2); infinite at -1 and 1.
func asinGradient(c *Context) error {
	c.divided(1, c.Op("Sqrt", c.oneMinusSquare(c.In(0))))
	return nil
}

// acosGradient: y = acos(x), so x gets -dy / sqrt(1 - x^2); infinite at -1 and 1.
func acosGradient(c *Context) error {
	c.divided(-1, c.Op("Sqrt", c.oneMinusSquare(c.In(0))))
	return nil
}

// atanGradient: y = atan(x), so x gets dy / (1 + x^2).
func atanGradient(c *Context) error {
	c.divided(1, c.squarePlus(c.In(0), 1))
	return nil
}

// asinhGradient: y = asinh(x), so x gets dy / sqrt(x^2 + 1).
func asinhGradient(c *Context) error {
	c.divided(1, c.Op("Sqrt", c.squarePlus(c.In(0), 1)))
	return nil
}

// acoshGradient: y = acosh(x), so x gets dy / sqrt(x^2 - 1); infinite at 1.
func acoshGradient(c *Context) error {
	c.divided(1, c.Op("Sqrt", c.squarePlus(c.In(0), -1)))
	return nil
}

// atanhGradient: y = atanh(x), so x gets dy / (1 - x^2); infinite at -1 and 1.
func atanhGradient(c *Context) error {
	c.divided(1, c.oneMinusSquare(c.In(0)))
	return nil
}

// oneMinusSquare is 1 - x^2.
func (c *Context) oneMinusSquare(x string) string {
	return c.Op("Sub", c.Scalar(x, 1), c.Op("Mul", x, x))
}

// squarePlus is x^2 plus a number.
func (c *Context) squarePlus(x string, v float64) string {
	return c.Op("Add", c.Op("Mul", x, x), c.Scalar(x, v))
}
