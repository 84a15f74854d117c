package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// oneHotGradient: y is off everywhere but at the indices, where it is on, so the pair of values (off, on) gets the sums
// of dy at these places. The indices get nothing.
func oneHotGradient(c *Context) error {
	c.SetUniform(0, 0)
	if !c.Needs(2) {
		return nil
	}
	hot := c.OpWith("OneHot", []string{c.In(0), c.In(1), c.Floats(c.In(2), []int64{2}, []float64{0, 1})}, ir.Int("axis", ir.AttrInt(c.Node, "axis", -1)))
	flat := c.List(-1)
	sum := func(x string) string { return c.ReduceSum(c.Op("Reshape", x, flat), []int64{0}, true) }
	on := sum(c.Op("Mul", c.Grad(0), hot))
	c.SetGrad(2, c.OpWith("Concat", []string{c.Op("Sub", sum(c.Grad(0)), on), on}, ir.Int("axis", 0)))
	return nil
}

func inferOneHot(s *Site) []Type {
	index, out := s.Type(0), Type{Elem: s.Type(2).Elem}
	rank := int64(len(index.Shape))
	axis := ir.AttrInt(s.Node, "axis", -1)
	if axis < 0 {
		axis += rank + 1
	}
	if !index.Ranked || axis < 0 || axis > rank {
		return []Type{out}
	}
	depth := ir.Dim{}
	if n, ok := s.ints[s.In(1)]; ok && len(n) == 1 && n[0] >= 0 {
		depth = ir.Fixed(n[0])
	}
	out.Shape, out.Ranked = slices.Insert(slices.Clone(index.Shape), int(axis), depth), true
	return []Type{out}
}
