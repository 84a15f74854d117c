package gradient

import (
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// padGradient: x gets the part of dy that it takes up in y, and in the modes that repeat elements of x what is at the
// repetitions besides. The constant around x gets the sum of the rest.
func padGradient(c *Context) error {
	mode := ir.AttrString(c.Node, "mode", "constant")
	switch mode {
	case "constant":
		c.unpadConstant()
	case "reflect", "edge", "wrap":
		if !c.Needs(0) {
			return nil
		}
		if dx, ok := c.unpadRepeated(mode); ok {
			c.SetGrad(0, dx)
		} else {
			c.scatterMoved(false, c.padPositions)
		}
	default:
		return fmt.Errorf(`its mode is %q, supported are "constant", "reflect", "edge" and "wrap"`, mode)
	}
	return nil
}

// unpadConstant cuts off what was put around x, which is to pad by the negative numbers.
func (c *Context) unpadConstant() {
	dy := c.Grad(0)
	var dx string
	before, after, known := c.pads()
	switch {
	case !known:
		c.wantOpset(11, "padding by sizes that are known only when the graph runs")
		in := []string{dy, c.Op("Neg", c.int64Of(c.In(1)))}
		if c.In(3) != "" {
			in = append(in, "", c.In(3))
		}
		dx = c.OpWith("Pad", in)
	case slices.ContainsFunc(slices.Concat(before, after), func(p int64) bool { return p < 0 }):
		for i := range before {
			before[i], after[i] = -before[i], -after[i]
		}
		dx = c.Pad(dy, before, after)
	default:
		dx = c.crop(dy, before, after)
	}
	c.SetGrad(0, dx)
	if !c.Needs(2) {
		return
	}
	sum := func(x string) string { return c.OpWith("ReduceSum", []string{x}, ir.Int("keepdims", 0)) }
	rest := c.Op("Sub", sum(dy), sum(dx))
	if t := c.Type(2); !t.Ranked || len(t.Shape) > 0 {
		rest = c.ReshapeLike(rest, c.In(2))
	}
	c.SetGrad(2, rest)
}

// crop cuts numbers of elements that are not negative off the axes.
func (c *Context) crop(x string, before, after []int64) string {
	var starts, ends, axes []int64
	for i := range before {
		if before[i] == 0 && after[i] == 0 {
			continue
		}
		end := -after[i]
		if end == 0 {
			end = 1<<63 - 1
		}
		starts, ends, axes = append(starts, before[i]), append(ends, end), append(axes, int64(i))
	}
	if len(axes) == 0 {
		return x
	}
	return c.Slice(x, starts, ends, axes)
}

// pads gives the numbers of elements put before and behind each axis, where they and the rank are known.
func (s *Site) pads() (before, after []int64, known bool) {
	rank := len(s.Type(0).Shape)
	list, given, known := s.Ints("pads", 1)
	axes, some, knownAxes := s.Ints("", 3)
	if !given || !known || !knownAxes || !s.Type(0).Ranked {
		return nil, nil, false
	}
	if !some {
		for i := range rank {
			axes = append(axes, int64(i))
		}
	}
	if len(list) != 2*len(axes) {
		return nil, nil, false
	}
	before, after = make([]int64, rank), make([]int64, rank)
	for i, a := range axes {
		axis, ok := s.Type(0).Axis(a)
		if !ok {
			return nil, nil, false
		}
		before[axis], after[axis] = list[i], list[i+len(axes)]
	}
	return before, after, true
}

// unpadRepeated adds up, axis by axis, what the elements of x went to. Edges are sums of what is beyond them; for the
// other modes each place of y has one place of x that it came from.
func (c *Context) unpadRepeated(mode string) (string, bool) {
	before, after, known := c.pads()
	if !known {
		return "", false
	}
	dx := c.Grad(0)
	for axis, d := range c.Type(0).Shape {
		b, a := before[axis], after[axis]
		switch {
		case b == 0 && a == 0:
		case !d.Set || b+a+d.Size < 0 || max(b, a, d.Size) > maxIndices:
			return "", false
		case mode == "edge" && b >= 0 && a >= 0 && d.Size > 1:
			dx = c.unpadEdge(dx, axis, b, a, d.Size)
		default:
			from := make([]int64, b+a+d.Size)
			for i := range from {
				from[i] = paddedFrom(mode, int64(i)-b, d.Size, max(-b, 0), d.Size-max(-a, 0))
			}
			dx = c.ungather(dx, axis, from, d.Size)
		}
	}
	return dx, true
}

// paddedFrom is the place in an axis of size n that place i came from, i counted so that it is itself inside the axis.
// Of the axis, only [low, high) is repeated where a negative pad cut off the rest first.
func paddedFrom(mode string, i, n, low, high int64) int64 {
	if i >= low && i < high || high <= low {
		return min(max(i, 0), n-1)
	}
	size := high - low
	switch mode {
	case "edge":
		return min(max(i, low), high-1)
	case "wrap":
		return low + mod(i-low, size)
	}
	if size == 1 {
		return low
	}
	at := mod(i-low, 2*size-2)
	return low + min(at, 2*size-2-at)
}

// mod is the remainder that is not negative.
func mod(a, n int64) int64 { return (a%n + n) % n }

func (c *Context) unpadEdge(dy string, axis int, b, a, n int64) string {
	part := func(start, end int64, sum bool) string {
		piece := c.Slice(dy, []int64{start}, []int64{end}, []int64{int64(axis)})
		if sum {
			return c.ReduceSum(piece, []int64{int64(axis)}, true)
		}
		return piece
	}
	var parts []string
	first, last := int64(0), b+n+a
	if b > 0 {
		parts, first = append(parts, part(0, b+1, true)), b+1
	}
	if a > 0 {
		last = b + n - 1
	}
	if last > first {
		parts = append(parts, part(first, last, false))
	}
	if a > 0 {
		parts = append(parts, part(last, b+n+a, true))
	}
	return c.OpWith("Concat", parts, ir.Int("axis", int64(axis)))
}

// padPositions pads positions as x was padded; a constant for the places around it is not needed.
func (c *Context) padPositions(positions string) string {
	in := slices.Clone(c.Node.Input)
	in[0] = positions
	if len(in) > 2 {
		in[2] = ""
	}
	return c.OpWith("Pad", in, c.Node.Attribute...)
}

func inferPad(s *Site) []Type {
	x := s.Type(0)
	if !x.Ranked {
		return []Type{{Elem: x.Elem}}
	}
	before, after, known := s.pads()
	shape := slices.Clone(x.Shape)
	for i, d := range shape {
		switch {
		case !known:
			shape[i] = ir.Dim{}
		case before[i] == 0 && after[i] == 0:
		case d.Set:
			shape[i] = ir.Fixed(max(d.Size+before[i]+after[i], 0))
		default:
			shape[i] = ir.Dim{}
		}
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
