package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// cumProdGradient: y_j is the product of the x_i with i <= j (i < j where exclusive), so x_i gets the sum over these j
// of dy_j y_j / x_i. Where x_i = 0, y_j / x_i is the product of the other elements, which are the x' with ones in place
// of zeros as long as x_i is the only zero up to j.
func cumProdGradient(c *Context) error {
	exclusive := ir.AttrInt(c.Node, "exclusive", 0)
	x, dy := c.In(0), c.Grad(0)
	isZero := c.Op("Equal", x, c.Scalar(x, 0))
	zero := c.castLike(isZero, x)
	filled := c.Op("Add", x, zero)
	total := func(v string) string { return c.cumSum(v, !c.fromEnd(), exclusive) }

	others := c.OpWith("CumProd", []string{filled, c.In(1)}, ir.Int("reverse", bit(c.fromEnd())), ir.Int("exclusive", exclusive))
	one := c.Op("Equal", c.cumSum(zero, c.fromEnd(), exclusive), c.Scalar(x, 1))
	atZero := total(c.keepWhere(one, c.Op("Mul", dy, others)))
	elsewhere := c.Op("Div", total(c.Op("Mul", dy, c.Out(0))), filled)
	c.SetGrad(0, c.Op("Where", isZero, atZero, elsewhere))
	return nil
}
