package gradient

import (
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

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

// reduceAlong applies a Reduce operator over the axes that the node reduces, and keeps these with size 1.
func (c *Context) reduceAlong(op string, r reduction, x string) string {
	if r.none {
		return x
	}
	if r.known {
		return c.reduceWith(op, x, sorted(r.axes), true)
	}
	axes, _, known := c.Ints("axes", 1)
	switch {
	case !known:
		noop := ir.AttrInt(c.Node, "noop_with_empty_axes", 0)
		return c.OpWith(op, []string{x, c.In(1)}, ir.Int("keepdims", 1), ir.Int("noop_with_empty_axes", noop))
	case len(axes) == 0:
		return c.OpWith(op, []string{x}, ir.Int("keepdims", 1))
	}
	return c.reduceWith(op, x, axes, true)
}

// reduceWith applies a Reduce operator over axes. All of them but ReduceSum take the axes as an attribute up to operator
// set 17.
func (c *Context) reduceWith(op, x string, axes []int64, keep bool) string {
	if op == "ReduceSum" {
		return c.ReduceSum(x, axes, keep)
	}
	if c.opset < 18 {
		return c.OpWith(op, []string{x}, ir.Ints("axes", axes...), ir.Int("keepdims", bit(keep)))
	}
	return c.OpWith(op, []string{x, c.List(axes...)}, ir.Int("keepdims", bit(keep)))
}

// signs is -1, 0 or 1 for each element.
func (c *Context) signs(x string) string {
	if c.opset >= 9 {
		return c.Op("Sign", x)
	}
	zero := c.Scalar(x, 0)
	return c.Op("Sub", c.castLike(c.Op("Greater", x, zero), x), c.castLike(c.Op("Less", x, zero), x))
}

// keepWhere is v where a condition holds and 0 elsewhere.
func (c *Context) keepWhere(cond, v string) string {
	if c.opset >= 9 {
		return c.Op("Where", cond, v, c.Scalar(v, 0))
	}
	return c.Op("Mul", v, c.castLike(cond, v))
}

// atLeastTiny keeps a norm, which is not negative, off 0. The bound is the square root of the smallest normal number:
// the squares behind a smaller norm are lost anyway.
func (c *Context) atLeastTiny(norm string) string {
	c.wantOpset(8, "bounding a norm from below")
	tiny := 1e-19
	switch c.types[norm].Elem {
	case ir.Float64:
		tiny = 1e-154
	case int32(onnxpb.TensorProto_FLOAT16):
		tiny = 0x1p-10
	}
	return c.Op("Max", norm, c.Scalar(norm, tiny))
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
