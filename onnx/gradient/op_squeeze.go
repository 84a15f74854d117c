package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// squeezeGradient: axes of size 1 were removed, so x gets dy in the shape of x.
func squeezeGradient(c *Context) error { return reshapeGradient(c) }

// unsqueezeGradient: axes of size 1 were inserted, so x gets dy in the shape of x.
func unsqueezeGradient(c *Context) error { return reshapeGradient(c) }

func inferSqueeze(s *Site) []Type {
	x := s.Type(0)
	axes, given, known := s.Ints("axes", 1)
	if !x.Ranked || !known || !given && slices.ContainsFunc(x.Shape, func(d ir.Dim) bool { return !d.Set }) {
		return []Type{{Elem: x.Elem}}
	}
	gone := map[int]bool{}
	for _, a := range axes {
		axis, ok := x.Axis(a)
		if !ok {
			return []Type{{Elem: x.Elem}}
		}
		gone[axis] = true
	}
	var shape []ir.Dim
	for i, d := range x.Shape {
		if given && !gone[i] || !given && !d.Is(1) {
			shape = append(shape, d)
		}
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}

func inferUnsqueeze(s *Site) []Type {
	x := s.Type(0)
	axes, given, known := s.Ints("axes", 1)
	if !x.Ranked || !known || !given {
		return []Type{{Elem: x.Elem}}
	}
	rank := len(x.Shape) + len(axes)
	shape := make([]ir.Dim, rank)
	for _, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		if a < 0 || a >= int64(rank) || shape[a].Set {
			return []Type{{Elem: x.Elem}}
		}
		shape[a] = ir.Fixed(1)
	}
	next := 0
	for i := range shape {
		if !shape[i].Set {
			shape[i] = x.Shape[next]
			next++
		}
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
