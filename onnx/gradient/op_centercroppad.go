package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// centerCropPadGradient: x is cropped, or filled up with zeros, around its centre. Both put the place left over of an
// odd number on the same side, so that dy, brought to the shape of x in the same way, is the gradient of x.
func centerCropPadGradient(c *Context) error {
	shape := c.ShapeOf(c.In(0))
	axes := ir.AttrInts(c.Node, "axes")
	if axes == nil {
		c.SetGrad(0, c.Op("CenterCropPad", c.Grad(0), shape))
		return nil
	}
	sizes := c.Op("Gather", shape, c.List(axes...))
	if known, ok := c.Type(0).Static(); ok {
		picked := make([]int64, len(axes))
		for i, a := range axes {
			if axis, inside := c.Type(0).Axis(a); inside {
				picked[i] = known[axis]
			}
		}
		sizes = c.List(picked...)
	}
	c.SetGrad(0, c.OpWith("CenterCropPad", []string{c.Grad(0), sizes}, ir.Ints("axes", axes...)))
	return nil
}

func inferCenterCropPad(s *Site) []Type {
	x := s.Type(0)
	if !x.Ranked {
		return []Type{{Elem: x.Elem}}
	}
	sizes, known := s.ints[s.In(1)]
	axes := ir.AttrInts(s.Node, "axes")
	if axes == nil {
		for i := range x.Shape {
			axes = append(axes, int64(i))
		}
	}
	shape := slices.Clone(x.Shape)
	for i, a := range axes {
		axis, ok := x.Axis(a)
		if !ok {
			return []Type{{Elem: x.Elem}}
		}
		shape[axis] = ir.Dim{}
		if known && i < len(sizes) && sizes[i] >= 0 {
			shape[axis] = ir.Fixed(sizes[i])
		}
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
