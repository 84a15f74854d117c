package gradient

// swishGradient: y = x s with s = sigmoid(alpha x), so x gets dy (s + alpha y (1 - s)).
func swishGradient(c *Context) error {
	x, alpha := c.In(0), c.float("alpha", 1)
	s := c.Op("Sigmoid", c.Scale(x, alpha))
	rest := c.Op("Mul", c.Scale(c.Out(0), alpha), c.complement(s))
	c.multiplied(c.Op("Add", s, rest))
	return nil
}
