package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// castGradient: a conversion between floating-point types passes dy on in the input's type. Conversions to other
// types carry no gradient, because their result is no floating-point value.
func castGradient(c *Context) error {
	return c.convertBack(int32(ir.AttrInt(c.Node, "to", 0)))
}

// castLikeGradient: the same, with the type taken from a second input, of which the value does not matter.
func castLikeGradient(c *Context) error { return c.convertBack(c.Type(1).Elem) }

func (c *Context) convertBack(from int32) error {
	_, uniform := c.Uniform(0)
	switch to := c.Type(0).Elem; {
	case uniform:
		c.passSame(1)
	case from == to && to != 0:
		c.SetGrad(0, c.Grad(0))
	default:
		c.SetGrad(0, c.castLike(c.Grad(0), c.In(0)))
	}
	return nil
}

func inferCast(s *Site) []Type {
	return []Type{s.Type(0).withElem(int32(ir.AttrInt(s.Node, "to", 0)))}
}

func inferCastLike(s *Site) []Type { return []Type{s.Type(0).withElem(s.Type(1).Elem)} }
