package gradient

// reduceLogSumGradient: y = log sum x, so every element of x gets dy / sum x = dy exp(-y).
func reduceLogSumGradient(c *Context) error {
	each := c.Op("Div", c.Grad(0), c.Op("Exp", c.Out(0)))
	c.SetGrad(0, c.ExpandLike(c.unreduced(c.reduction(), each), c.In(0)))
	return nil
}
