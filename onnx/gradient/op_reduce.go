package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// reduction is what a Reduce operator sums over.
type reduction struct {
	axes []int64 // from the start of the shape; meaningful where known is set
	// known says that the axes are given by the file. Otherwise they are computed by the graph, or all axes of a
	// value of unknown rank.
	known bool
	none  bool // nothing is reduced: y = x
	keep  bool
}

func (s *Site) reduction() reduction {
	r := reduction{keep: ir.AttrInt(s.Node, "keepdims", 1) != 0}
	axes, given, known := s.Ints("axes", 1)
	x := s.Type(0)
	if !known {
		return r
	}
	if !given || len(axes) == 0 {
		r.none = ir.AttrInt(s.Node, "noop_with_empty_axes", 0) != 0
		for i := range x.Shape {
			r.axes = append(r.axes, int64(i))
		}
		r.known = x.Ranked
		return r
	}
	for _, a := range axes {
		axis, ok := x.Axis(a)
		if !ok {
			return r
		}
		r.axes = append(r.axes, int64(axis))
	}
	r.known = true
	return r
}

// unreduced gives a value of the output's shape the input's rank, with 1 at the reduced axes.
func (c *Context) unreduced(r reduction, name string) string {
	switch {
	case r.keep || r.none:
		return name
	case r.known:
		return c.Unsqueeze(name, sorted(r.axes))
	case c.In(1) != "":
		return c.Op("Unsqueeze", name, c.In(1))
	}
	if axes := ir.AttrInts(c.Node, "axes"); axes != nil {
		return c.Unsqueeze(name, axes)
	}
	return name // all axes of a value of unknown rank: a scalar, which broadcasts to any shape
}

func inferReduce(s *Site) []Type {
	x := s.Type(0)
	r := s.reduction()
	if r.none {
		return []Type{x}
	}
	if !r.known || !x.Ranked {
		return []Type{{Elem: x.Elem}}
	}
	gone := map[int64]bool{}
	for _, a := range r.axes {
		gone[a] = true
	}
	var shape []ir.Dim
	for i, d := range x.Shape {
		switch {
		case !gone[int64(i)]:
			shape = append(shape, d)
		case r.keep:
			shape = append(shape, ir.Fixed(1))
		}
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
