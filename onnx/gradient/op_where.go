package gradient

// whereGradient: y = a where the condition holds, else b, so each gets dy where it was taken, else 0. The gradient is
// chosen, not multiplied by a mask, though that would be several times as fast: models choose to keep an infinite
// derivative out, and 0 times infinity is no number.
func whereGradient(c *Context) error {
	dy := c.Grad(0)
	none := c.Scalar(dy, 0)
	if c.Needs(1) {
		c.SetBroadcast(1, c.Op("Where", c.In(0), dy, none))
	}
	if c.Needs(2) {
		c.SetBroadcast(2, c.Op("Where", c.In(0), none, dy))
	}
	return nil
}
