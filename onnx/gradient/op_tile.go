package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// tileGradient: y is x repeated along its axes, so x gets the sum of the copies' gradients.
func tileGradient(c *Context) error {
	x := c.Type(0)
	repeats, known := c.ints[c.In(1)]
	if known && x.Ranked && len(repeats) == len(x.Shape) {
		if slices.Contains(repeats, 0) {
			c.SetUniform(0, 0)
			return nil
		}
		c.SetGrad(0, c.sumCopies(repeats, true))
		return nil
	}
	c.wantOpset(13, "summing over axes that are known only when the graph runs")
	column := func(list string) string { return c.Op("Reshape", list, c.List(-1, 1)) }
	shape := c.ShapeOf(c.In(0))
	both := c.OpWith("Concat", []string{column(c.In(1)), column(shape)}, ir.Int("axis", 1))
	copies := c.Op("Reshape", c.Grad(0), c.Op("Reshape", both, c.List(-1)))
	ends := c.Op("Size", both)
	axes := c.Op("Range", c.Int(0), ends, c.Int(2))
	c.SetGrad(0, c.OpWith("ReduceSum", []string{copies, axes}, ir.Int("keepdims", 0), ir.Int("noop_with_empty_axes", 1)))
	return nil
}

func inferTile(s *Site) []Type {
	x := s.Type(0)
	if !x.Ranked {
		return []Type{{Elem: x.Elem}}
	}
	repeats, known := s.ints[s.In(1)]
	shape := slices.Clone(x.Shape)
	for i, d := range shape {
		switch {
		case !known || len(repeats) != len(shape):
			shape[i] = ir.Dim{}
		case repeats[i] == 1:
		case d.Set:
			shape[i] = ir.Fixed(d.Size * repeats[i])
		default:
			shape[i] = ir.Dim{}
		}
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
