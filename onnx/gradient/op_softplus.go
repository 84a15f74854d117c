package gradient

// softplusGradient: y = log(1 + exp(x)), so x gets dy sigmoid(x).
func softplusGradient(c *Context) error {
	c.SetGrad(0, c.Op("Mul", c.Grad(0), c.Op("Sigmoid", c.In(0))))
	return nil
}
