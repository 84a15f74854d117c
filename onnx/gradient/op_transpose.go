package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// transposeGradient: x gets dy with the axes permuted back. Without perm the axes are reversed, which undoes itself.
func transposeGradient(c *Context) error {
	if v, ok := c.Uniform(0); ok {
		c.SetUniform(0, v)
		return nil
	}
	perm := ir.AttrInts(c.Node, "perm")
	if perm == nil {
		c.SetGrad(0, c.Op("Transpose", c.Grad(0)))
		return nil
	}
	back := make([]int64, len(perm))
	for i := range perm {
		back[i] = int64(slices.Index(perm, int64(i)))
	}
	c.SetGrad(0, c.Transpose(c.Grad(0), back...))
	return nil
}

func inferTranspose(s *Site) []Type {
	x := s.Type(0)
	perm := ir.AttrInts(s.Node, "perm")
	if !x.Ranked || perm != nil && len(perm) != len(x.Shape) {
		return []Type{{Elem: x.Elem}}
	}
	shape := slices.Clone(x.Shape)
	slices.Reverse(shape)
	for i, p := range perm {
		if p < 0 || p >= int64(len(x.Shape)) {
			return []Type{{Elem: x.Elem}}
		}
		shape[i] = x.Shape[p]
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
