package gradient

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// convolution is the geometry of a Conv node: x [N, C, in...], weight [M, C/group, kernel...], y [N, M, out...].
// Lists have one number a spatial axis.
type convolution struct {
	kernel, stride, dilation []int64
	before, after            []int64 // zeros put in front of and behind x
	group                    int64
}

// convGradient: y[n,m,o] = bias[m] + sum over c and k of x[n, c, o stride + k dilation - before] weight[m,c,k].
// The gradient of x is the transposed convolution of dy; that of the weight is the convolution of x with dy, batch and
// channel exchanged; that of the bias is dy summed over all but the channels.
func convGradient(c *Context) error {
	v, err := c.convolution()
	if err != nil {
		return err
	}
	if c.Needs(0) {
		c.SetGrad(0, c.convInput(v))
	}
	if c.Needs(1) {
		if v.group != 1 {
			return errors.New("it cannot be differentiated with respect to its weights: it has groups")
		}
		c.SetGrad(1, c.convWeight(v))
	}
	if c.Needs(2) {
		c.SetGrad(2, c.ReduceSum(c.Grad(0), append([]int64{0}, v.spatialAxes()...), false))
	}
	return nil
}

// spatialAxes are the axes behind batch and channel.
func (v convolution) spatialAxes() []int64 {
	axes := make([]int64, len(v.kernel))
	for i := range axes {
		axes[i] = int64(i + 2)
	}
	return axes
}

// extent is the number of input places that one output place sees, first to last.
func (v convolution) extent(i int) int64 { return v.dilation[i]*(v.kernel[i]-1) + 1 }

func (s *Site) convolution() (convolution, error) {
	v := convolution{group: ir.AttrInt(s.Node, "group", 1), kernel: ir.AttrInts(s.Node, "kernel_shape")}
	w := s.Type(1)
	if v.kernel == nil {
		sizes, ok := Type{Shape: w.Shape[min(2, len(w.Shape)):], Ranked: w.Ranked}.Static()
		if !ok || len(sizes) == 0 {
			return v, errors.New("the size of its kernel is not known: run ONNX shape inference on the model first")
		}
		v.kernel = sizes
	}
	n := len(v.kernel)
	v.stride, v.dilation = listOr(s.Node, "strides", n, 1), listOr(s.Node, "dilations", n, 1)
	pads := listOr(s.Node, "pads", 2*n, 0)
	if len(v.stride) != n || len(v.dilation) != n || len(pads) != 2*n || v.group < 1 {
		return v, fmt.Errorf("its attributes do not go together: kernel %v, strides %v, dilations %v, pads %v, group %d", v.kernel, v.stride, v.dilation, pads, v.group)
	}
	for i := range n {
		for _, value := range []int64{v.kernel[i], v.stride[i], v.dilation[i]} {
			if value < 1 || value > math.MaxInt32 {
				return v, fmt.Errorf("its attributes are out of range: kernel %v, strides %v, dilations %v", v.kernel, v.stride, v.dilation)
			}
		}
	}
	v.before, v.after = slices.Clone(pads[:n]), slices.Clone(pads[n:])
	return v, s.autoPad(&v)
}

func listOr(n *onnxpb.NodeProto, name string, count int, def int64) []int64 {
	if values := ir.AttrInts(n, name); values != nil {
		return values
	}
	return slices.Repeat([]int64{def}, count)
}

// autoPad replaces auto_pad by the numbers it stands for: VALID is none; SAME gives ceil(in / stride) outputs, with the
// odd zero behind (UPPER) or in front (LOWER).
func (s *Site) autoPad(v *convolution) error {
	mode := ir.AttrString(s.Node, "auto_pad", "NOTSET")
	if mode == "NOTSET" {
		return nil
	}
	n := len(v.kernel)
	v.before, v.after = make([]int64, n), make([]int64, n)
	if mode == "VALID" {
		return nil
	}
	if mode != "SAME_UPPER" && mode != "SAME_LOWER" {
		return fmt.Errorf("its auto_pad %q is not known", mode)
	}
	for i := range n {
		in, ok := s.Type(0).spatial(i)
		if !ok {
			return fmt.Errorf("it has auto_pad %s and an input of unknown size: export it with explicit pads", mode)
		}
		out := (in + v.stride[i] - 1) / v.stride[i]
		total := max(0, (out-1)*v.stride[i]+v.extent(i)-in)
		v.before[i], v.after[i] = total/2, total-total/2
		if mode == "SAME_LOWER" {
			v.before[i], v.after[i] = v.after[i], v.before[i]
		}
	}
	return nil
}

// spatial is the size of a spatial axis, where it is known.
func (t Type) spatial(i int) (int64, bool) {
	if !t.Ranked || i+2 >= len(t.Shape) || !t.Shape[i+2].Set {
		return 0, false
	}
	return t.Shape[i+2].Size, true
}

func inferConv(s *Site) []Type {
	x, w := s.Type(0), s.Type(1)
	v, err := s.convolution()
	if err != nil {
		return []Type{{Elem: x.Elem}}
	}
	shape := make([]ir.Dim, 2+len(v.kernel))
	if len(x.Shape) == len(shape) {
		shape[0] = x.Shape[0]
	}
	if len(w.Shape) == len(shape) {
		shape[1] = w.Shape[0]
	}
	for i := range v.kernel {
		if in, ok := x.spatial(i); ok {
			if room := in + v.before[i] + v.after[i] - v.extent(i); room >= 0 {
				shape[i+2] = ir.Fixed(room/v.stride[i] + 1)
			}
		}
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
