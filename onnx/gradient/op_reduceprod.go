package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// reduceProdGradient: y = prod x, so x gets dy times the product of the other elements. With zeros replaced by ones in
// x' and the number of zeros n, that product is prod x' / x' where all zeros are the element itself, and 0 elsewhere.
func reduceProdGradient(c *Context) error {
	r := c.reduction()
	if r.none {
		c.SetGrad(0, c.Grad(0))
		return nil
	}
	x := c.In(0)
	zero := c.castLike(c.Op("Not", c.OpWith("Cast", []string{x}, ir.Int("to", int64(ir.Bool)))), x)
	zeros := c.reduceAlong("ReduceSum", r, zero)
	filled := c.Op("Add", x, zero)
	product := c.Op("Mul", c.unreduced(r, c.Grad(0)), c.reduceAlong("ReduceProd", r, filled))
	own := c.Op("Not", c.Op("Less", zero, zeros))
	c.SetGrad(0, c.keepWhere(own, c.Op("Div", product, filled)))
	return nil
}
