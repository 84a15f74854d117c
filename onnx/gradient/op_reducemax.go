package gradient

// reduceMaxGradient: the largest element of x gets dy; elements that share the maximum share dy equally.
func reduceMaxGradient(c *Context) error { return reduceExtremeGradient(c, "Less") }

// reduceMinGradient: the smallest element of x gets dy; elements that share the minimum share dy equally.
func reduceMinGradient(c *Context) error { return reduceExtremeGradient(c, "Greater") }

// reduceExtremeGradient passes dy to the elements that y was taken from; for the others the comparison beaten(x, y)
// holds.
func reduceExtremeGradient(c *Context, beaten string) error {
	r := c.reduction()
	if r.none {
		c.SetGrad(0, c.Grad(0))
		return nil
	}
	x, y := c.In(0), c.unreduced(r, c.Out(0))
	var won string
	if c.opset >= 11 {
		won = c.Op("Equal", x, y)
	} else { // Equal was for integers only
		won = c.Op("Not", c.Op(beaten, x, y))
	}
	winners := c.castLike(won, x)
	share := c.Op("Div", c.unreduced(r, c.Grad(0)), c.reduceAlong("ReduceSum", r, winners))
	c.SetGrad(0, c.Op("Mul", winners, share))
	return nil
}
