package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// castGradient: a conversion between floating-point types passes dy on in the input's type. Conversions to other
// types carry no gradient, because their result is no floating-point value.
func castGradient(c *Context) error {
	from, to := c.Type(0).Elem, int32(ir.AttrInt(c.Node, "to", 0))
	_, uniform := c.Uniform(0)
	switch {
	case uniform:
		c.passSame(1)
	case from == to:
		c.SetGrad(0, c.Grad(0))
	case from == 0:
		c.Scalar(c.In(0), 0) // reports that the element type is not known
	default:
		c.SetGrad(0, c.OpWith("Cast", []string{c.Grad(0)}, ir.Int("to", int64(from))))
	}
	return nil
}

func inferCast(s *Site) []Type {
	return []Type{s.Type(0).withElem(int32(ir.AttrInt(s.Node, "to", 0)))}
}
