package gradient

import (
	"errors"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// sliceGradient: the piece of x that was cut out gets dy, the rest 0.
func sliceGradient(c *Context) error {
	x := c.Type(0)
	cut, ok := c.cuts()
	if !ok {
		return errors.New("its start, end or the sliced size is computed by the graph: run ONNX shape inference and constant folding on the model first")
	}
	before, after := make([]int64, len(x.Shape)), make([]int64, len(x.Shape))
	for axis, p := range cut {
		if p.step != 1 {
			return errors.New("it cannot be differentiated: its step is not 1")
		}
		before[axis], after[axis] = p.start, x.Shape[axis].Size-max(p.end, p.start)
	}
	c.SetGrad(0, c.Pad(c.Grad(0), before, after))
	return nil
}

// piece is what is kept of an axis: [start, end) with start and end inside the axis.
type piece struct{ start, end, step int64 }

// size is the number of elements kept, for a positive step.
func (p piece) size() int64 { return max(0, (p.end-p.start+p.step-1)/p.step) }

// cuts gives the pieces by axis, where they are known.
func (s *Site) cuts() (map[int]piece, bool) {
	x := s.Type(0)
	starts, given, known := s.Ints("starts", 1)
	ends, _, knownEnds := s.Ints("ends", 2)
	axes, givenAxes, knownAxes := s.Ints("axes", 3)
	steps, givenSteps, knownSteps := s.Ints("", 4)
	if !x.Ranked || !given || !known || !knownEnds || !knownAxes || !knownSteps || len(starts) != len(ends) {
		return nil, false
	}
	if givenAxes && len(axes) != len(starts) || givenSteps && len(steps) != len(starts) {
		return nil, false
	}
	out := map[int]piece{}
	for i := range starts {
		a, step := int64(i), int64(1)
		if givenAxes {
			a = axes[i]
		}
		if givenSteps {
			step = steps[i]
		}
		axis, ok := x.Axis(a)
		if !ok || !x.Shape[axis].Set || step < 1 {
			return nil, false
		}
		n := x.Shape[axis].Size
		out[axis] = piece{clampIndex(starts[i], n), clampIndex(ends[i], n), step}
	}
	return out, true
}

// clampIndex counts a negative index from the end and moves it into [0, n].
func clampIndex(i, n int64) int64 {
	if i < 0 {
		i += n
	}
	return min(max(i, 0), n)
}

func inferSlice(s *Site) []Type {
	x := s.Type(0)
	if !x.Ranked {
		return []Type{{Elem: x.Elem}}
	}
	shape := slices.Clone(x.Shape)
	cut, ok := s.cuts()
	if !ok {
		axes, given, known := s.Ints("axes", 3)
		starts, _, _ := s.Ints("starts", 1)
		for i := range shape {
			if !given || !known || slices.Contains(axes, int64(i)) || slices.Contains(axes, int64(i-len(shape))) || starts == nil {
				shape[i] = ir.Dim{}
			}
		}
	}
	for axis, p := range cut {
		shape[axis] = ir.Fixed(p.size())
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
