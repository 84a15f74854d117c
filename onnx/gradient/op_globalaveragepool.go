package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// globalAveragePoolGradient: y is the mean of x over all spatial axes, so x gets dy divided by their size.
func globalAveragePoolGradient(c *Context) error {
	x := c.Type(0)
	if sizes, ok := x.spatialSizes(); ok {
		n, _ := product(x.Shape[2:])
		if dy, same := c.Uniform(0); same {
			c.SetUniform(0, dy/float64(n))
			return nil
		}
		// A product with a constant is faster on a CPU than Expand.
		c.SetGrad(0, c.Op("Mul", c.Grad(0), c.floats(c.In(0), sizes, slices.Repeat([]float64{1 / float64(n)}, int(n)))))
		return nil
	}
	count := c.castLike(c.Op("Div", c.Op("Size", c.In(0)), c.Op("Size", c.Out(0))), c.In(0))
	c.SetGrad(0, c.ExpandLike(c.Op("Div", c.Grad(0), count), c.In(0)))
	return nil
}

// inferGlobalPool is the type of a value pooled over all its spatial axes.
func inferGlobalPool(s *Site) []Type {
	x := s.Type(0)
	if len(x.Shape) < 2 {
		return []Type{{Elem: x.Elem}}
	}
	ones := slices.Repeat([]ir.Dim{ir.Fixed(1)}, len(x.Shape)-2)
	return []Type{{Elem: x.Elem, Shape: append([]ir.Dim{x.Shape[0], x.Shape[1]}, ones...), Ranked: true}}
}
