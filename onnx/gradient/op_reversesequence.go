package gradient

// reverseSequenceGradient: the first elements of every sequence are turned round, which undoes itself.
func reverseSequenceGradient(c *Context) error {
	c.SetGrad(0, c.again(c.Grad(0)))
	return nil
}
