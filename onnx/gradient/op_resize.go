package gradient

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// resizeGradient: resizing is linear in x and done axis by axis, y = A x along each of them, so x gets the product of
// dy with the transpose of A. For mode nearest, A picks elements: whole repetitions are summed, others are picked back.
// It serves Upsample too.
func resizeGradient(c *Context) error {
	p := c.interpolation()
	if err := c.resizable(p); err != nil {
		return err
	}
	plan, planned := c.resampled()
	sized := planned && !slices.ContainsFunc(plan, func(r resampling) bool { return !r.sized && r.scale != 1 })
	switch {
	case p.mode != "nearest" || p.coordinates == crop:
		if !sized {
			return errors.New("the sizes of the resized axes, or the region to crop, are not known: run ONNX shape inference and constant folding on the model first")
		}
		return c.uninterpolate(p, plan)
	case planned && c.unrepeat(p, plan):
	case sized:
		dx := c.Grad(0)
		for axis, r := range plan {
			if r.scale != 1 {
				dx = c.ungather(dx, axis, p.indices(r), r.in)
			}
		}
		c.SetGrad(0, dx)
	default:
		// Of the integer types, ONNX Runtime resizes int32.
		c.scatterMoved(false, func(positions string) string {
			moved := c.again(c.OpWith("Cast", []string{positions}, ir.Int("to", int32Type)))
			return c.OpWith("Cast", []string{moved}, ir.Int("to", int64(ir.Int64)))
		})
	}
	return nil
}

func (c *Context) uninterpolate(p interpolation, plan []resampling) error {
	dx := c.Grad(0)
	for axis, r := range plan {
		switch {
		case r.scale == 1:
		case r.in*r.out > maxWeights:
			return fmt.Errorf("resizing %d elements to %d needs a matrix of more than %d weights: resize in front of the input", r.in, r.out, maxWeights)
		default:
			dx = c.multiplyAxis(dx, axis, p.rows(r), r.in)
		}
	}
	c.SetGrad(0, dx)
	return nil
}

const maxWeights = 1 << 24

const int32Type = 6 // TensorProto.INT32

// resizable names what cannot be differentiated.
func (s *Site) resizable(p interpolation) error {
	switch {
	case !slices.Contains([]string{"nearest", "linear", "cubic"}, p.mode):
		return fmt.Errorf(`its mode is %q, supported are "nearest", "linear" and "cubic"`, p.mode)
	case p.mode != "nearest" && ir.AttrInt(s.Node, "antialias", 0) != 0:
		return errors.New("it cannot be differentiated: its attribute antialias is set: export the model without antialiasing, or resize before the input")
	}
	return nil
}

// unrepeat sums the repetitions in mode nearest with whole factors. For images, average pooling, which has a fast
// kernel for float32, gives the mean of a block.
func (c *Context) unrepeat(p interpolation, plan []resampling) bool {
	times, all := make([]int64, len(plan)), int64(1)
	for axis, r := range plan {
		n, ok := p.repeats(r)
		if !ok || all > maxIndices {
			return false
		}
		times[axis] = n
		all *= n
	}
	if rank := len(times); rank >= 3 && rank <= 5 && times[0] == 1 && times[1] == 1 && c.Type(0).Elem == ir.Float32 {
		window := []string{c.Grad(0)}
		mean := c.OpWith("AveragePool", window, ir.Ints("kernel_shape", times[2:]...), ir.Ints("strides", times[2:]...))
		c.SetGrad(0, c.Op("Mul", mean, c.Scalar(c.In(0), float64(all))))
		return true
	}
	c.SetGrad(0, c.sumCopies(times, false))
	return true
}

// resampled gives the resizing of each axis; false where the rank of x or a scale is not known.
func (s *Site) resampled() ([]resampling, bool) {
	x := s.Type(0)
	plan := make([]resampling, len(x.Shape))
	for i, d := range x.Shape {
		plan[i] = resampling{in: d.Size, out: d.Size, sized: d.Set, scale: 1}
	}
	axes, given := ir.AttrInts(s.Node, "axes"), ir.Attr(s.Node, "axes") != nil
	if !given {
		for i := range plan {
			axes = append(axes, int64(i))
		}
	}
	places := make([]int, len(axes))
	for i, a := range axes {
		axis, ok := x.Axis(a)
		if !ok {
			return nil, false
		}
		places[i] = axis
	}
	ok := x.Ranked && (s.interpolation().coordinates != crop || s.cropped(plan, places))
	if scales, given, known := s.scales(); given {
		ok = ok && known && len(scales) == len(places) && s.scaled(plan, places, scales)
	} else {
		ok = ok && s.fitted(plan, places)
	}
	return plan, ok
}

// cropped sets the regions: the starts for all axes, then the ends.
func (s *Site) cropped(plan []resampling, places []int) bool {
	region, known := s.floats[s.In(1)]
	if !known || len(region) != 2*len(places) {
		return false
	}
	for i, axis := range places {
		plan[axis].start, plan[axis].end = region[i], region[i+len(places)]
	}
	return true
}

// scales gives the factors, where the node is given factors, not sizes.
func (s *Site) scales() (scales []float32, given, known bool) {
	if a := ir.Attr(s.Node, "scales"); a != nil {
		return a.GetFloats(), true, true
	}
	input := 2
	if s.Node.OpType == "Upsample" || s.opset < 11 {
		input = 1
	}
	name := s.In(input)
	scales, known = s.floats[name]
	// Operator sets 11 and 12 want an empty list of factors beside sizes.
	empty := s.In(3) != "" && (known && len(scales) == 0 || len(s.types[name].Shape) == 1 && s.types[name].Shape[0].Is(0))
	return scales, name != "" && !empty, known
}

func (s *Site) scaled(plan []resampling, places []int, scales []float32) bool {
	for i, axis := range places {
		r := &plan[axis]
		r.scale = scales[i]
		if !(r.scale > 0) {
			return false
		}
		out := float32(r.in) * r.scale
		if r.in > maxIndices || out > maxIndices {
			return false
		}
		r.out = int64(out)
	}
	return true
}

// fitted sets the scales for given sizes, or, where they are computed, for the sizes of y that the file states.
func (s *Site) fitted(plan []resampling, places []int) bool {
	x, y := s.Type(0), s.TypeOf(s.Out(0))
	sizes, known := s.dims[s.In(3)]
	if known && len(sizes) != len(places) {
		return false
	}
	for i, axis := range places {
		r, want := &plan[axis], ir.Dim{}
		switch {
		case known:
			want = sizes[i]
		case y.Ranked && len(y.Shape) == len(plan):
			want = y.Shape[axis]
		}
		switch {
		case want.Same(x.Shape[axis]):
		case axis == 0 && len(plan) > 3 && !known && ir.AttrString(s.Node, "mode", "") != "nearest":
			// ONNX Runtime does not interpolate along the first axis of images.
		case !want.Set || want.Size < 0 || !r.sized || r.in == 0 || max(r.in, want.Size) > maxIndices:
			return false
		default:
			r.out, r.scale = want.Size, float32(want.Size)/float32(r.in)
		}
	}
	policy := ir.AttrString(s.Node, "keep_aspect_ratio_policy", "stretch")
	return policy == "stretch" || known && keepAspect(plan, places, policy == "not_larger")
}

// keepAspect takes the smallest, or the largest, of the scales for all axes, and rounds the sizes that result.
func keepAspect(plan []resampling, places []int, smallest bool) bool {
	if len(places) == 0 {
		return true
	}
	scale := plan[places[0]].scale
	for _, axis := range places {
		if s := plan[axis].scale; s < scale == smallest {
			scale = s
		}
		if !plan[axis].sized {
			return false
		}
	}
	for _, axis := range places {
		r := &plan[axis]
		r.scale = scale
		r.out = int64(float32(r.in)*scale + 0.5)
		if r.out > maxIndices {
			return false
		}
	}
	return true
}

func inferResize(s *Site) []Type {
	x := s.Type(0)
	plan, known := s.resampled()
	if !x.Ranked {
		return []Type{{Elem: x.Elem}}
	}
	out := Type{Elem: x.Elem, Shape: slices.Clone(x.Shape), Ranked: true}
	for i, r := range plan {
		switch {
		case !known:
			out.Shape[i] = ir.Dim{}
		case r.scale == 1:
		case r.sized && r.out >= 0:
			out.Shape[i] = ir.Fixed(r.out)
		default:
			out.Shape[i] = ir.Dim{}
		}
	}
	if sizes := s.shapeFrom(3); !known && s.In(3) != "" && len(sizes.Shape) == len(x.Shape) && ir.AttrString(s.Node, "keep_aspect_ratio_policy", "stretch") == "stretch" {
		out.Shape = sizes.Shape
	}
	return []Type{out}
}
