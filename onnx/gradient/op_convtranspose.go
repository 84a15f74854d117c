package gradient

import (
	"errors"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// convTransposeGradient: y[n, m, i stride + k dilation - before] gets bias[m] and the sum over c of x[n,c,i]
// weight[c,m,k], where c runs over the channels of m's group. That is the input gradient of the convolution that has
// these weights, so the gradient of x is that convolution of dy, and the gradient of the weights is the convolution's,
// with dy for its input and x for the gradient of its output.
func convTransposeGradient(c *Context) error {
	v, more, err := c.transposedWindow()
	if err != nil {
		return err
	}
	group, err := c.groups(v)
	if err != nil {
		return err
	}
	if c.Needs(2) {
		c.SetGrad(2, c.ReduceSum(c.windowGrad(), append([]int64{0}, v.axes()...), false))
	}
	if !c.Needs(0) && !c.Needs(1) {
		return nil
	}
	// Without the places that output_padding adds behind the last window, the convolution has as many outputs as x.
	dy, cut := c.windowGrad(), false
	ends := v.fill(0)
	for i, n := range more {
		v.after[i] -= n
		ends[i] = min(0, v.after[i])
		cut = cut || ends[i] < 0
		v.after[i] = max(0, v.after[i])
	}
	if cut {
		dy = c.Slice(dy, v.fill(0), keepZero(ends), v.axes())
	}
	if c.Needs(0) {
		c.SetGrad(0, c.OpWith("Conv", []string{dy, c.In(1)}, append(c.windowAttrs(v, v.pads()), ir.Int("group", group))...))
	}
	if c.Needs(1) {
		c.SetGrad(1, c.windowWeight(v, dy, c.In(0), c.In(1), group))
	}
	return nil
}

// keepZero turns ends of which 0 means "up to the end" into those that Slice reads so.
func keepZero(ends []int64) []int64 {
	out := slices.Clone(ends)
	for i, e := range out {
		if e == 0 {
			out[i] = 1<<63 - 1
		}
	}
	return out
}

// transposedWindow is the geometry of a ConvTranspose, as the window that moves over its output, and the number of
// places that are added behind the last window. With output_shape or auto_pad the padding is what brings the output to
// the wanted size: the odd zero is cut behind for SAME_UPPER, in front otherwise.
func (s *Site) transposedWindow() (v window, more []int64, err error) {
	v, err = s.window()
	if err != nil {
		return v, nil, err
	}
	more = slices.Clone(listOr(s.Node, "output_padding", v.rank(), 0))
	wanted := ir.AttrInts(s.Node, "output_shape")
	if len(wanted) > v.rank() {
		wanted = wanted[len(wanted)-v.rank():]
	}
	if len(more) != v.rank() || wanted != nil && len(wanted) != v.rank() {
		return v, nil, errors.New("its attributes output_padding or output_shape do not have one number a spatial axis")
	}
	mode := ir.AttrString(s.Node, "auto_pad", "NOTSET")
	switch {
	case wanted == nil && (mode == "NOTSET" || mode == ""):
		return v, more, nil
	case wanted == nil && mode == "VALID":
		v.before, v.after = v.fill(0), v.fill(0)
		return v, more, nil
	case v.kernel == nil:
		return v, nil, errors.New("the size of its kernel is not known: run ONNX shape inference on the model first")
	}
	for i := range v.rank() {
		total := v.extent(i) + more[i] - v.stride[i] // SAME: the output is stride times the input
		if wanted != nil {
			in, ok := s.Type(0).spatial(i)
			if !ok {
				return v, nil, errors.New("it has output_shape and an input of unknown size: run ONNX shape inference on the model first")
			}
			total += in*v.stride[i] - wanted[i]
		}
		if total < 0 {
			more[i], total = more[i]-total, 0
		}
		v.before[i], v.after[i] = split(total, mode != "SAME_UPPER")
	}
	return v, more, nil
}

func inferConvTranspose(s *Site) []Type {
	x, w := s.Type(0), s.Type(1)
	v, more, err := s.transposedWindow()
	if err != nil {
		return []Type{{Elem: x.Elem}}
	}
	shape := make([]ir.Dim, 2+v.rank())
	if len(x.Shape) == len(shape) {
		shape[0] = x.Shape[0]
	}
	if len(w.Shape) == len(shape) && w.Shape[1].Set {
		shape[1] = ir.Fixed(w.Shape[1].Size * ir.AttrInt(s.Node, "group", 1))
	}
	for i := range v.kernel {
		switch in, ok := x.spatial(i); {
		case ok:
			shape[i+2] = ir.Fixed((in-1)*v.stride[i] + v.extent(i) + more[i] - v.before[i] - v.after[i])
		case len(x.Shape) == len(shape) && v.stride[i] == 1 && v.extent(i)+more[i]-v.before[i]-v.after[i] == 1:
			shape[i+2] = x.Shape[i+2]
		}
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
