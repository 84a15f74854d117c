package gradient

import (
	"math"

	"github.com/jempipe/jempipe/onnx/ir"
)

// rangeGradient: y_i = start + i delta, so start gets the sum of dy and delta the sum of i dy. The limit decides on
// the number of elements only and gets nothing.
func rangeGradient(c *Context) error {
	sum := func(x string) string { return c.OpWith("ReduceSum", []string{x}, ir.Int("keepdims", 0)) }
	if c.Needs(0) {
		c.SetGrad(0, sum(c.Grad(0)))
	}
	c.SetUniform(1, 0)
	if c.Needs(2) {
		count := c.Op("Range", c.Int(0), c.Op("Size", c.Out(0)), c.Int(1))
		c.SetGrad(2, sum(c.Op("Mul", c.Grad(0), c.castLike(count, c.In(2)))))
	}
	return nil
}

func inferRange(s *Site) []Type {
	out := Type{Elem: s.Type(0).Elem, Shape: make([]ir.Dim, 1), Ranked: true}
	var limits [3]int64
	for i := range limits {
		values, ok := s.ints[s.In(i)]
		if !ok || len(values) != 1 || values[0] > math.MaxInt32 || values[0] < math.MinInt32 {
			return []Type{out}
		}
		limits[i] = values[0]
	}
	if p := (piece{limits[0], limits[1], limits[2]}); p.step != 0 {
		out.Shape[0] = ir.Fixed(p.size())
	}
	return []Type{out}
}
