package gradient

// leakyReluGradient: y = x for x > 0, else alpha x, so x gets dy or alpha dy. At x = 0 the slope alpha is taken,
// or 0 where alpha is negative.
func leakyReluGradient(c *Context) error {
	alpha := c.float("alpha", 0.01)
	sign := c.Out(0) // has the sign of x for alpha > 0, and lets the forward operator be fused
	if alpha <= 0 {
		sign = c.In(0)
	}
	slope, ok := "", false
	if alpha <= 1 {
		slope, ok = c.saturate(sign, 1, alpha, 1)
	}
	if !ok {
		slope = c.Op("Add", c.Scale(c.positive(sign), 1-alpha), c.Scalar(sign, alpha))
	}
	c.multiplied(slope)
	return nil
}

// preluGradient: y = x for x > 0, else slope x, so x gets dy or slope dy and the slope gets min(x, 0) dy, summed over
// the axes along which it was repeated. At x = 0 the slope is taken.
func preluGradient(c *Context) error {
	x, slope := c.In(0), c.In(1)
	if c.Needs(0) {
		rest := c.Op("Mul", c.positive(x), c.Op("Sub", c.Scalar(slope, 1), slope))
		c.multiplied(c.Op("Add", rest, slope))
	}
	if c.Needs(1) {
		c.SetBroadcast(1, c.Op("Mul", c.Grad(0), c.negativePart(x)))
	}
	return nil
}
