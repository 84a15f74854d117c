package gradient

import "errors"

// reduceMaxGradient: the largest element of x gets dy; elements that share the maximum share dy equally.
func reduceMaxGradient(c *Context) error {
	r := c.reduction()
	c.wantOpset(11, "comparing floating-point values for equality")
	if !r.known {
		return errors.New("its axes or the rank of its input are not known: run ONNX shape inference on the model first")
	}
	if r.none {
		c.SetGrad(0, c.Grad(0))
		return nil
	}
	winners := c.castLike(c.Op("Equal", c.In(0), c.unreduced(r, c.Out(0))), c.In(0))
	share := c.Op("Div", c.unreduced(r, c.Grad(0)), c.ReduceSum(winners, sorted(r.axes), true))
	c.SetGrad(0, c.Op("Mul", winners, share))
	return nil
}
