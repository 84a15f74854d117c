package gradient

// softsignGradient: y = x / (1 + |x|), so x gets dy / (1 + |x|)^2 = dy (1 - |y|)^2.
func softsignGradient(c *Context) error {
	y := c.Out(0)
	root := c.Op("Sub", c.Scalar(y, 1), c.Op("Abs", y))
	c.multiplied(c.Op("Mul", root, root))
	return nil
}
