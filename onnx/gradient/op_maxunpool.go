package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// maxUnpoolGradient: x is put into zeros at the indices given, which count along the flattened y, so x gets dy from
// there. Of several values at one place, the last one counts for y; all of them get its gradient.
func maxUnpoolGradient(c *Context) error {
	// The result has the shape of the indices, which is that of x.
	c.SetGrad(0, c.Op("Gather", c.Op("Reshape", c.Grad(0), c.List(-1)), c.In(1)))
	return nil
}

func inferMaxUnpool(s *Site) []Type {
	x := s.Type(0)
	v, err := s.window()
	if err != nil || len(x.Shape) != v.rank()+2 || s.In(2) != "" {
		sizes := s.ints[s.In(2)]
		return []Type{{Elem: x.Elem, Shape: ir.FixedDims(sizes...), Ranked: sizes != nil}}
	}
	shape := slices.Clone(x.Shape)
	for i := range v.rank() {
		shape[i+2] = ir.Dim{}
		if in, ok := x.spatial(i); ok && v.kernel != nil {
			shape[i+2] = ir.Fixed((in-1)*v.stride[i] + v.kernel[i] - v.before[i] - v.after[i])
		}
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
