package gradient

// expGradient: y = exp(x), so x gets dy y.
func expGradient(c *Context) error {
	c.multiplied(c.Out(0))
	return nil
}
