package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// topKGradient: the k largest or smallest elements of x are copied, so these get the dy of their copies and the others
// 0. The indices carry no gradient.
func topKGradient(c *Context) error {
	c.wantOpset(9, "putting gradients in the places that TopK chose")
	scatter := "ScatterElements"
	if c.opset < 11 {
		scatter = "Scatter"
	}
	axis := ir.Int("axis", ir.AttrInt(c.Node, "axis", -1))
	c.SetGrad(0, c.OpWith(scatter, []string{c.fill(c.In(0), 0), c.Out(1), c.Grad(0)}, axis))
	return nil
}

func inferTopK(s *Site) []Type {
	x := s.Type(0)
	axis, ok := x.Axis(ir.AttrInt(s.Node, "axis", -1))
	if !ok {
		return []Type{{Elem: x.Elem}, {Elem: ir.Int64}}
	}
	shape := slices.Clone(x.Shape)
	shape[axis] = ir.Dim{}
	if k := ir.AttrInt(s.Node, "k", -1); k >= 0 {
		shape[axis] = ir.Fixed(k)
	} else if k, known := s.ints[s.In(1)]; known && len(k) == 1 && k[0] >= 0 {
		shape[axis] = ir.Fixed(k[0])
	}
	values := Type{Elem: x.Elem, Shape: shape, Ranked: true}
	return []Type{values, values.withElem(ir.Int64)}
}
