package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// scalerGradient: y = (x - offset) scale, with one factor for all features or one for each, so x gets dy scale.
func scalerGradient(c *Context) error {
	scale := ir.Attr(c.Node, "scale").GetFloats()
	if len(scale) == 0 {
		c.setConverted(0, c.Grad(0))
		return nil
	}
	shape := []int64{int64(len(scale))}
	if len(scale) == 1 {
		shape = nil
	}
	c.setConverted(0, c.Op("Mul", c.Grad(0), c.Const(ir.Float32Tensor("const_floats", shape, scale))))
	return nil
}

// setConverted adds to the gradient of an input a tensor in float32, which the outputs of this domain have whatever the
// type of the input.
func (c *Context) setConverted(i int, name string) {
	if elem := c.Type(i).Elem; elem != 0 && elem != ir.Float32 {
		name = c.OpWith("Cast", []string{name}, ir.Int("to", int64(elem)))
	}
	c.SetGrad(i, name)
}

// inferSingle is for operators of this domain whose output has the shape of the input.
func inferSingle(s *Site) []Type { return []Type{s.Type(0).withElem(ir.Float32)} }
