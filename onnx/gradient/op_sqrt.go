package gradient

// sqrtGradient: y = sqrt(x), so x gets dy / (2 y); infinite at 0.
func sqrtGradient(c *Context) error {
	c.divided(0.5, c.Out(0))
	return nil
}
