package gradient

// absGradient: y = |x|, so x gets dy sign(x); 0 at x = 0.
func absGradient(c *Context) error {
	c.multiplied(c.sign(c.In(0)))
	return nil
}
