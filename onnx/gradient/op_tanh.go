package gradient

// tanhGradient: y = tanh(x), so x gets dy (1 - y^2).
func tanhGradient(c *Context) error {
	c.multiplied(c.oneMinusSquare(c.Out(0)))
	return nil
}
