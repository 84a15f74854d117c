package gradient

// triluGradient: the elements on one side of a diagonal are kept and the others are 0, so x gets the same of dy.
func triluGradient(c *Context) error {
	c.SetGrad(0, c.again(c.Grad(0)))
	return nil
}
