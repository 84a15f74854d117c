package gradient

import (
	"errors"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// splitGradient: x was cut along an axis, so it gets the gradients of the pieces put together again; pieces that are
// not used count as 0.
func splitGradient(c *Context) error {
	if v, ok := c.Uniform(0); ok && c.allUniform(v) {
		c.SetUniform(0, v)
		return nil
	}
	axis := ir.AttrInt(c.Node, "axis", 0)
	sizes, known := c.splitSizes()
	x := c.Type(0)
	at, ranked := x.Axis(axis)
	first, last := -1, -1
	for i := range c.Node.Output {
		if c.HasGrad(i) {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if !known || !ranked { // no padding: every piece is written out
		first, last = 0, len(c.Node.Output)-1
	}
	var parts []string
	for i := first; i <= last; i++ {
		switch {
		case c.HasGrad(i):
			parts = append(parts, c.Grad(i))
		case c.Out(i) != "":
			parts = append(parts, c.fill(c.Out(i), 0))
		case known && ranked:
			start := total(sizes[:i])
			hole := c.Slice(c.In(0), []int64{start}, []int64{start + sizes[i]}, []int64{int64(at)})
			parts = append(parts, c.fill(hole, 0))
		default:
			return errors.New("it has an output without a name and the sizes of its outputs are not known: run ONNX shape inference on the model first")
		}
	}
	dx := parts[0]
	if len(parts) > 1 {
		dx = c.OpWith("Concat", parts, ir.Int("axis", axis))
	}
	if known && ranked {
		dx = c.padAxis(dx, at, total(sizes[:first]), total(sizes[last+1:]))
	}
	c.SetGrad(0, dx)
	return nil
}

func (c *Context) allUniform(v float64) bool {
	for i := range c.Node.Output {
		if u, ok := c.Uniform(i); !ok || u != v {
			return false
		}
	}
	return true
}

func total(sizes []int64) int64 {
	sum := int64(0)
	for _, n := range sizes {
		sum += n
	}
	return sum
}

// splitSizes gives the sizes of the outputs along the axis, where they are known.
func (s *Site) splitSizes() ([]int64, bool) {
	count := int64(len(s.Node.Output))
	sizes, given, known := s.Ints("split", 1)
	if given {
		return sizes, known && int64(len(sizes)) == count && !slices.ContainsFunc(sizes, func(n int64) bool { return n < 0 })
	}
	x := s.Type(0)
	axis, ok := x.Axis(ir.AttrInt(s.Node, "axis", 0))
	if !ok || !x.Shape[axis].Set || count == 0 {
		return nil, false
	}
	// Equal pieces; where the size does not divide, the last one is smaller (operator set 18).
	n := x.Shape[axis].Size
	each := (n + count - 1) / count
	out := make([]int64, count)
	for i := range out {
		out[i] = min(each, max(n-int64(i)*each, 0))
	}
	return out, true
}

func inferSplit(s *Site) []Type {
	x := s.Type(0)
	axis, ok := x.Axis(ir.AttrInt(s.Node, "axis", 0))
	sizes, known := s.splitSizes()
	out := make([]Type, len(s.Node.Output))
	for i := range out {
		out[i] = Type{Elem: x.Elem}
		if !ok {
			continue
		}
		shape := slices.Clone(x.Shape)
		shape[axis] = ir.Dim{}
		if known {
			shape[axis] = ir.Fixed(sizes[i])
		}
		out[i].Shape, out[i].Ranked = shape, true
	}
	return out
}
