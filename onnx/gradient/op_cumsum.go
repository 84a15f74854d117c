package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// cumSumGradient: y_j = sum of x_i over i <= j, so x_i gets the sum of dy_j over j >= i: the same sum from the other
// end. It leaves out the element itself where the operator does.
func cumSumGradient(c *Context) error {
	c.SetGrad(0, c.cumSum(c.Grad(0), !c.fromEnd(), ir.AttrInt(c.Node, "exclusive", 0)))
	return nil
}

// fromEnd says whether a cumulative operator runs from the end of the axis.
func (c *Context) fromEnd() bool { return ir.AttrInt(c.Node, "reverse", 0) != 0 }

// cumSum sums along the axis of the node, which is its second input.
func (c *Context) cumSum(x string, reverse bool, exclusive int64) string {
	return c.OpWith("CumSum", []string{x, c.In(1)}, ir.Int("reverse", bit(reverse)), ir.Int("exclusive", exclusive))
}
