package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// compressGradient: y keeps the elements of x, or its rows along an axis, at which a condition holds, so those get dy.
func compressGradient(c *Context) error {
	c.scatterMoved(true, c.again)
	return nil
}

func inferCompress(s *Site) []Type {
	x := s.Type(0)
	if ir.Attr(s.Node, "axis") == nil {
		return []Type{{Elem: x.Elem, Shape: make([]ir.Dim, 1), Ranked: true}}
	}
	axis, ok := x.Axis(ir.AttrInt(s.Node, "axis", 0))
	if !ok {
		return []Type{{Elem: x.Elem}}
	}
	shape := slices.Clone(x.Shape)
	shape[axis] = ir.Dim{}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
