package gradient

// instanceNormalizationGradient: y = scale h + bias for each channel, where h is x standardised over the axes behind the
// channels. So x gets what passStandardised says of scale dy, scale gets sum(dy h), bias gets sum(dy).
func instanceNormalizationGradient(c *Context) error {
	dy := c.channelRows(c.Grad(0), 0)
	c.setChannels(2, dy)
	if !c.Needs(0) && !c.Needs(1) {
		return nil
	}
	s := c.standardise(c.channelRows(c.In(0), 0), c.epsilon())
	if c.Needs(1) {
		c.setChannels(1, c.Op("Mul", dy, c.result(s)))
	}
	if c.Needs(0) {
		dx := c.passStandardised(s, dy, c.Unsqueeze(c.In(1), []int64{1}))
		c.SetGrad(0, c.shapedLike(dx, c.In(0)))
	}
	return nil
}

// shapedLike gives a value the shape of another one with as many elements, if it is not known to have it.
func (c *Context) shapedLike(v, like string) string {
	if sameShape(c.types[v], c.types[like]) {
		return v
	}
	return c.ReshapeLike(v, like)
}
