package gradient

// softplusGradient: y = log(1 + exp(x)), so x gets dy sigmoid(x).
func softplusGradient(c *Context) error {
	c.multiplied(c.Op("Sigmoid", c.In(0)))
	return nil
}
