package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// reshapeGradient: the elements keep their order, so x gets dy in the shape of x. It serves Flatten too.
func reshapeGradient(c *Context) error {
	if v, ok := c.Uniform(0); ok {
		c.SetUniform(0, v)
		return nil
	}
	c.SetGrad(0, c.ReshapeLike(c.Grad(0), c.In(0)))
	return nil
}

// inferReshape follows a target shape that is known, or worked out from other shapes: 0 copies the size of the axis at
// its place, unless allowzero says that it means zero, and -1 takes what is left.
func inferReshape(s *Site) []Type {
	x := s.Type(0)
	target, ok := s.dims[s.In(1)]
	if !ok {
		return []Type{s.shapeFrom(1).withElem(x.Elem)}
	}
	allowZero := ir.AttrInt(s.Node, "allowzero", 0) != 0
	shape := make([]ir.Dim, len(target))
	rest, copied := -1, map[int]bool{}
	for i, d := range target {
		switch {
		case !d.Set || d.Size > 0 || d.Size == 0 && allowZero:
			shape[i] = d
		case d.Size == 0 && x.Ranked && i < len(x.Shape):
			shape[i], copied[i] = x.Shape[i], true
		case d.Size < 0:
			rest = i
		}
	}
	if rest >= 0 {
		shape[rest] = left(x, shape, rest, copied)
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}

// left is the size of the axis marked -1: the source's size over the others'. Axes that both have cancel, so they need
// not be known; and a single unknown axis of the source is the result where all others cancel.
func left(x Type, shape []ir.Dim, rest int, copied map[int]bool) ir.Dim {
	if !x.Ranked {
		return ir.Dim{}
	}
	var from, to []ir.Dim
	for i, d := range x.Shape {
		if !copied[i] {
			from = append(from, d)
		}
	}
	for i, d := range shape {
		if i != rest && !copied[i] {
			to = append(to, d)
		}
	}
	to = slices.DeleteFunc(to, func(d ir.Dim) bool {
		at := slices.IndexFunc(from, func(f ir.Dim) bool { return !d.Set && d.Same(f) })
		if at >= 0 {
			from = slices.Delete(from, at, at+1)
		}
		return at >= 0
	})
	below, ok := product(to)
	if !ok || below == 0 {
		return ir.Dim{}
	}
	if above, ok := product(from); ok {
		return ir.Fixed(above / below)
	}
	free := slices.IndexFunc(from, func(d ir.Dim) bool { return !d.Set })
	if free < 0 { // more elements than can be counted
		return ir.Dim{}
	}
	others := slices.Delete(slices.Clone(from), free, free+1)
	if above, ok := product(others); ok && above == below {
		return from[free]
	}
	return ir.Dim{}
}

func inferFlatten(s *Site) []Type {
	x := s.Type(0)
	out := Type{Elem: x.Elem, Shape: make([]ir.Dim, 2), Ranked: true}
	axis := ir.AttrInt(s.Node, "axis", 1)
	if axis < 0 {
		axis += int64(len(x.Shape))
	}
	if !x.Ranked || axis < 0 || axis > int64(len(x.Shape)) {
		return []Type{out}
	}
	for i, part := range [][]ir.Dim{x.Shape[:axis], x.Shape[axis:]} {
		if n, ok := product(part); ok {
			out.Shape[i] = ir.Fixed(n)
		} else if len(part) == 1 {
			out.Shape[i] = part[0]
		}
	}
	return []Type{out}
}
