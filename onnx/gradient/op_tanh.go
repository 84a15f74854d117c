package gradient

// tanhGradient: y = tanh(x), so x gets dy (1 - y^2).
func tanhGradient(c *Context) error {
	y := c.Out(0)
	slope := c.Op("Sub", c.Scalar(y, 1), c.Op("Mul", y, y))
	c.SetGrad(0, c.Op("Mul", c.Grad(0), slope))
	return nil
}
