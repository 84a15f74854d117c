package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// averagePoolGradient: y[o] is the sum of x over the window of o, divided by the number of places that count: those of
// x, and with count_include_pad those of the padding. So x gets the sum of dy / count over the windows that see it.
func averagePoolGradient(c *Context) error {
	v, err := c.pool()
	if err != nil {
		return err
	}
	c.SetGrad(0, c.spread(v, c.windowGrad(), c.In(0), true, ir.AttrInt(c.Node, "count_include_pad", 0) != 0))
	return nil
}

// inferPool gives the type of a pooled value, and that of the indices of MaxPool.
func inferPool(s *Site) []Type {
	x := s.Type(0)
	v, err := s.slidingWindow()
	if err != nil || len(x.Shape) != v.rank()+2 {
		return []Type{{Elem: x.Elem}, {Elem: ir.Int64}}
	}
	y := Type{Elem: x.Elem, Shape: append([]ir.Dim{x.Shape[0], x.Shape[1]}, v.slide(x)...), Ranked: true}
	return []Type{y, y.withElem(ir.Int64)}
}
