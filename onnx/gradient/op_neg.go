package gradient

// negGradient: y = -x, so x gets -dy.
func negGradient(c *Context) error {
	c.passSame(-1)
	return nil
}

// passSame gives the only input, which has the output's shape, the output's gradient times a factor.
func (c *Context) passSame(factor float64) {
	if v, ok := c.Uniform(0); ok {
		c.SetUniform(0, factor*v)
		return
	}
	c.SetGrad(0, c.Scale(c.Grad(0), factor))
}
