package gradient

// logGradient: y = log(x), so x gets dy / x.
func logGradient(c *Context) error {
	c.divided(1, c.In(0))
	return nil
}
