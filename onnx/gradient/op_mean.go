package gradient

// meanGradient: y = (a + b + ...) / n, so each of the n inputs gets dy / n.
func meanGradient(c *Context) error {
	for i := range c.Node.Input {
		c.passBroadcast(i, 1/float64(len(c.Node.Input)))
	}
	return nil
}
