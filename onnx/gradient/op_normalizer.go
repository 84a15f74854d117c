package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// normalizerGradient: each row is divided by its norm n, y = x / n. With s = sum(dy y) over the row,
//
//	L1: x gets (dy - s sign(x)) / n, L2: x gets (dy - s y) / n, MAX: n is an element of x, which gets -s / n besides.
//
// ONNX Runtime takes the largest element for MAX, not the largest magnitude; of several equal ones each gets its share.
// Rows whose norm is 0 stay as they are, so they get dy.
func normalizerGradient(c *Context) error {
	rank := c.Rank(c.In(0))
	if c.err != nil {
		return nil
	}
	x, y, dy := c.In(0), c.Out(0), c.Grad(0)
	if c.Type(0).Elem != ir.Float32 {
		x = c.OpWith("Cast", []string{x}, ir.Int("to", int64(ir.Float32)))
	}
	axis := []int64{int64(rank - 1)}
	inner := c.ReduceSum(c.Op("Mul", dy, y), axis, true)
	var norm, slope string
	reduce := func(op string) string {
		if op != "ReduceSum" && c.opset >= 18 {
			return c.Op(op, x, c.List(axis...))
		}
		return c.OpWith(op, []string{x}, ir.Ints("axes", axis...))
	}
	switch ir.AttrString(c.Node, "norm", "MAX") {
	case "L1":
		norm, slope = reduce("ReduceL1"), c.Op("Sign", x)
	case "L2":
		norm, slope = reduce("ReduceL2"), y
	default:
		norm = reduce("ReduceMax")
		winners := c.castLike(c.Op("Equal", x, norm), x)
		slope = c.Op("Div", winners, c.ReduceSum(winners, axis, true))
	}
	c.wantOpset(11, "comparing floating-point values for equality")
	scaled := c.Op("Div", c.Op("Sub", dy, c.Op("Mul", slope, inner)), norm)
	c.setConverted(0, c.Op("Where", c.Op("Equal", norm, c.Scalar(x, 0)), dy, scaled))
	return nil
}
