package gradient

// globalMaxPoolGradient: the largest place of a channel gets dy; places that share the maximum share dy equally.
func globalMaxPoolGradient(c *Context) error {
	rank := c.Rank(c.In(0))
	c.wantOpset(11, "comparing floating-point values for equality")
	if c.err != nil {
		return c.err
	}
	winners := c.castLike(c.Op("Equal", c.In(0), c.Out(0)), c.In(0))
	var axes []int64
	for i := 2; i < rank; i++ {
		axes = append(axes, int64(i))
	}
	share := c.Op("Div", c.Grad(0), c.ReduceSum(winners, axes, true))
	c.SetGrad(0, c.Op("Mul", winners, share))
	return nil
}
