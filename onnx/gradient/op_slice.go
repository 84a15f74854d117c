package gradient

import (
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// sliceGradient: the piece of x that was cut out gets dy, the rest 0.
func sliceGradient(c *Context) error {
	cut, ok := c.cuts()
	switch {
	case ok:
		c.SetGrad(0, c.unslice(cut))
	case c.unitSteps():
		c.SetGrad(0, c.unsliceDynamic())
	default:
		c.scatterMoved(true, c.again)
	}
	return nil
}

// unslice puts the gradient of known pieces of known axes back: axes cut backwards are turned round, those cut with a
// step get zeros in between, and then zeros go around it all.
func (c *Context) unslice(cut map[int]piece) string {
	dx := c.Grad(0)
	rank := len(c.Type(0).Shape)
	before, after := make([]int64, rank), make([]int64, rank)
	for axis := range rank {
		p, ok := cut[axis]
		if !ok {
			continue
		}
		n, m := c.Type(0).Shape[axis].Size, p.size()
		step, start := p.step, p.start
		if m == 0 {
			after[axis] = n
			continue
		}
		if step < 0 {
			start, step = p.start+(m-1)*p.step, -p.step
			dx = c.reverse(dx, axis)
		}
		if step > 1 && m > 1 {
			dx = c.interleave(dx, axis, step, m)
			m *= step
		}
		// The zeros behind the last element may reach beyond the end; padding by a negative number cuts them off.
		before[axis], after[axis] = start, n-start-m
	}
	return c.Pad(dx, before, after)
}

// interleave puts step-1 zeros behind every one of the m elements of an axis.
func (c *Context) interleave(x string, axis int, step, m int64) string {
	t := c.types[x]
	split := c.padAxis(c.Unsqueeze(x, []int64{int64(axis) + 1}), axis+1, 0, step-1)
	target := make([]int64, len(t.Shape))
	free := 0
	for i, d := range t.Shape {
		switch {
		case i == axis:
			target[i] = m * step
		case i < axis:
			target[i] = 0 // the size of the source's axis at this place
		case d.Set && d.Size > 0:
			target[i] = d.Size
		default:
			target[i] = -1
			free++
		}
	}
	if free <= 1 {
		return c.Op("Reshape", split, c.List(target...))
	}
	shape := c.Op("Shape", x)
	head := c.Slice(shape, []int64{0}, []int64{int64(axis)}, []int64{0})
	tail := c.Slice(shape, []int64{int64(axis) + 1}, []int64{int64(len(t.Shape))}, []int64{0})
	return c.Op("Reshape", split, c.OpWith("Concat", []string{head, c.List(m * step), tail}, ir.Int("axis", 0)))
}

// unitSteps says whether a slice of an axis of unknown size, or with computed limits, cuts known axes one after the
// other element, so that padding with computed sizes undoes it.
func (s *Site) unitSteps() bool {
	axes, ok := s.slicedAxes()
	seen := map[int]bool{}
	for _, a := range axes {
		seen[a] = true
	}
	steps, given, known := s.Ints("", 4)
	return ok && len(seen) == len(axes) && known && (!given || !slices.ContainsFunc(steps, func(n int64) bool { return n != 1 }))
}

// slicedAxes gives the axes that are cut, from the start of the shape, in the order of the limits.
func (s *Site) slicedAxes() ([]int, bool) {
	x := s.Type(0)
	axes, given, known := s.Ints("axes", 3)
	if !given {
		starts, _, knownStarts := s.Ints("starts", 1)
		count := int64(len(starts))
		if shape := s.types[s.In(1)].Shape; !knownStarts && len(shape) == 1 && shape[0].Set {
			count, knownStarts = shape[0].Size, true
		}
		known = knownStarts && count <= int64(len(x.Shape))
		for i := int64(0); known && i < count; i++ {
			axes = append(axes, i)
		}
	}
	out := make([]int, len(axes))
	for i, a := range axes {
		axis, ok := x.Axis(a)
		if !ok {
			return nil, false
		}
		out[i] = axis
	}
	return out, known && x.Ranked
}

// unsliceDynamic pads by start and size - start - length, computed when the graph runs.
func (c *Context) unsliceDynamic() string {
	c.wantOpset(12, "padding by sizes that are known only when the graph runs")
	axes, _ := c.slicedAxes()
	list := make([]int64, len(axes))
	for i, a := range axes {
		list[i] = int64(a)
	}
	sizes := c.Op("Gather", c.ShapeOf(c.In(0)), c.List(list...))
	kept := c.Op("Gather", c.Op("Shape", c.Grad(0)), c.List(list...))
	var start string
	if starts, _, known := c.Ints("starts", 1); known {
		start = c.List(starts...)
		if slices.ContainsFunc(starts, func(v int64) bool { return v < 0 }) {
			start = c.countedFromEnd(start, sizes)
		}
	} else {
		start = c.countedFromEnd(c.int64Of(c.In(1)), sizes)
	}
	before := c.Op("Min", start, sizes)
	after := c.Op("Sub", c.Op("Sub", sizes, before), kept)
	// A pad for every axis is picked from those computed and a zero behind them.
	rank, n := len(c.Type(0).Shape), int64(len(axes))
	pick := slices.Repeat([]int64{2 * n}, 2*rank)
	for i, a := range axes {
		pick[a], pick[rank+a] = int64(i), n+int64(i)
	}
	all := c.OpWith("Concat", []string{before, after, c.List(0)}, ir.Int("axis", 0))
	return c.Op("Pad", c.Grad(0), c.Op("Gather", all, c.List(pick...)))
}

// countedFromEnd adds the size of the axis to negative starts; what is still negative is 0.
func (c *Context) countedFromEnd(start, sizes string) string {
	negative := c.Op("Less", start, c.List(0))
	return c.Op("Max", c.Op("Where", negative, c.Op("Add", start, sizes), start), c.List(0))
}

// lowest stands for "beyond the first element" as the end of a slice with a negative step.
const lowest = math.MinInt64 + 1

// piece is what is kept of an axis: start, start+step, ... up to but without end, all inside the axis.
type piece struct{ start, end, step int64 }

// size is the number of elements kept.
func (p piece) size() int64 {
	if p.step < 0 {
		return max(0, (p.end-p.start+p.step+1)/p.step)
	}
	return max(0, (p.end-p.start+p.step-1)/p.step)
}

// cuts gives the pieces by axis, where they are known.
func (s *Site) cuts() (map[int]piece, bool) {
	x := s.Type(0)
	starts, given, known := s.Ints("starts", 1)
	ends, _, knownEnds := s.Ints("ends", 2)
	axes, knownAxes := s.slicedAxes()
	steps, givenSteps, knownSteps := s.Ints("", 4)
	if !x.Ranked || !given || !known || !knownEnds || !knownAxes || !knownSteps || len(starts) != len(ends) || len(axes) != len(starts) {
		return nil, false
	}
	if givenSteps && len(steps) != len(starts) {
		return nil, false
	}
	out := map[int]piece{}
	for i, axis := range axes {
		step := int64(1)
		if givenSteps {
			step = steps[i]
		}
		if !x.Shape[axis].Set || step == 0 || step == math.MinInt64 {
			return nil, false
		}
		n := x.Shape[axis].Size
		p := piece{clampIndex(starts[i], n, 0, n), clampIndex(ends[i], n, 0, n), step}
		if step < 0 {
			p.start, p.end = clampIndex(starts[i], n, 0, n-1), clampIndex(ends[i], n, -1, n-1)
		}
		p.step = min(max(step, -n-1), n+1) // a longer step keeps the first element just so
		out[axis] = p
	}
	return out, true
}

// clampIndex counts a negative index from the end and moves it into [low, high].
func clampIndex(i, n, low, high int64) int64 {
	if i < 0 {
		i += n
	}
	return min(max(i, low), high)
}

func inferSlice(s *Site) []Type {
	x := s.Type(0)
	if !x.Ranked {
		return []Type{{Elem: x.Elem}}
	}
	shape := slices.Clone(x.Shape)
	cut, ok := s.cuts()
	if !ok {
		axes, known := s.slicedAxes()
		for i := range shape {
			if !known || slices.Contains(axes, i) {
				shape[i] = ir.Dim{}
			}
		}
	}
	for axis, p := range cut {
		shape[axis] = ir.Fixed(p.size())
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
