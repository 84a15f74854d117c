package gradient

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// window is the geometry of a node that moves a window over the spatial axes of x [N, C, in...]: output place o sees
// the places o stride + k dilation - before of x for 0 <= k < kernel. Lists have one number a spatial axis.
type window struct {
	kernel           []int64 // nil: the size of the weight's last axes, which is known only when the graph runs
	stride, dilation []int64
	before, after    []int64 // zeros put in front of and behind x
	// same is the auto_pad SAME_UPPER or SAME_LOWER whose padding depends on sizes that are known only when the graph
	// runs; before and after are zero then.
	same string
	ceil bool // a last window that reaches beyond the padding counts
}

// rank is the number of spatial axes.
func (v window) rank() int { return len(v.stride) }

// axes are those behind batch and channel.
func (v window) axes() []int64 {
	axes := make([]int64, v.rank())
	for i := range axes {
		axes[i] = int64(i + 2)
	}
	return axes
}

// extent is the number of input places that one output place sees, first to last.
func (v window) extent(i int) int64 { return v.dilation[i]*(v.kernel[i]-1) + 1 }

func (v window) pads() []int64 { return slices.Concat(v.before, v.after) }

// taps is the number of places in the window.
func (v window) taps() int64 {
	n := int64(1)
	for _, k := range v.kernel {
		n *= k
	}
	return n
}

// fill gives a list with one number a spatial axis.
func (v window) fill(n int64) []int64 { return slices.Repeat([]int64{n}, v.rank()) }

// dense says that neighbouring windows touch and that nothing is added around x.
func (v window) dense() bool {
	return v.same == "" && slices.Equal(v.kernel, v.stride) && v.plain()
}

// pointwise says that y has one place for each place of x, which sees that place alone.
func (v window) pointwise() bool { return v.taps() == 1 && slices.Max(v.stride) == 1 && v.plain() }

func (v window) plain() bool {
	return v.same == "" && slices.Max(v.dilation) == 1 && slices.Max(v.before) == 0 && slices.Max(v.after) == 0
}

// apart says that no two windows have a place in common.
func (v window) apart() bool {
	for i := range v.kernel {
		if v.extent(i) > v.stride[i] {
			return false
		}
	}
	return true
}

// window reads the geometry of a node. The kernel is that of the attribute, or else that of the weight, input 1.
func (s *Site) window() (window, error) {
	v := window{kernel: ir.AttrInts(s.Node, "kernel_shape"), ceil: ir.AttrInt(s.Node, "ceil_mode", 0) != 0}
	n := len(v.kernel)
	if v.kernel == nil {
		w := s.Type(1)
		n = max(s.spatialRank(), len(w.Shape)-2)
		if sizes, ok := (Type{Shape: w.Shape[min(2, len(w.Shape)):], Ranked: w.Ranked}).Static(); ok {
			v.kernel = sizes
		}
	}
	if n < 1 {
		return v, errors.New("the number of its spatial axes is not known: run ONNX shape inference on the model first")
	}
	v.stride, v.dilation = listOr(s.Node, "strides", n, 1), listOr(s.Node, "dilations", n, 1)
	pads := listOr(s.Node, "pads", 2*n, 0)
	if v.kernel != nil && len(v.kernel) != n || len(v.stride) != n || len(v.dilation) != n || len(pads) != 2*n {
		return v, fmt.Errorf("its attributes do not go together: kernel %v, strides %v, dilations %v, pads %v", v.kernel, v.stride, v.dilation, pads)
	}
	if x := s.Type(0); x.Ranked && len(x.Shape) != n+2 {
		return v, fmt.Errorf("its input has %d dimensions, its attributes or weights are those of %d", len(x.Shape), n+2)
	}
	for _, list := range [][]int64{v.kernel, v.stride, v.dilation} {
		for _, value := range list {
			if value < 1 || value > math.MaxInt32 {
				return v, fmt.Errorf("its attributes are out of range: kernel %v, strides %v, dilations %v", v.kernel, v.stride, v.dilation)
			}
		}
	}
	v.before, v.after = slices.Clone(pads[:n]), slices.Clone(pads[n:])
	return v, nil
}

// spatialRank is the number of spatial axes that x or an attribute tells; 0 where none does.
func (s *Site) spatialRank() int {
	return max(len(s.Type(0).Shape)-2, len(ir.AttrInts(s.Node, "strides")), len(ir.AttrInts(s.Node, "dilations")), len(ir.AttrInts(s.Node, "pads"))/2)
}

func listOr(n *onnxpb.NodeProto, name string, count int, def int64) []int64 {
	if values := ir.AttrInts(n, name); len(values) > 0 {
		return values
	}
	return slices.Repeat([]int64{def}, count)
}

// pool is the geometry of a pooling operator, which states the size of its window.
func (s *Site) pool() (window, error) {
	v, err := s.slidingWindow()
	if err == nil && v.kernel == nil {
		err = errors.New("it has no attribute kernel_shape")
	}
	return v, err
}

// slidingWindow is the geometry of a node whose window moves over its first input, with auto_pad replaced by the
// numbers it stands for: VALID is none; SAME gives ceil(in / stride) outputs, with the odd zero behind (UPPER) or in
// front (LOWER).
func (s *Site) slidingWindow() (window, error) {
	v, err := s.window()
	mode := ir.AttrString(s.Node, "auto_pad", "NOTSET")
	if err != nil || mode == "NOTSET" || mode == "" {
		return v, err
	}
	v.before, v.after = v.fill(0), v.fill(0)
	if mode == "VALID" {
		return v, nil
	}
	if mode != "SAME_UPPER" && mode != "SAME_LOWER" {
		return v, fmt.Errorf("its auto_pad %q is not known", mode)
	}
	v.ceil = false
	for i := range v.rank() {
		in, known := s.Type(0).spatial(i)
		if v.kernel == nil || !known && v.stride[i] != 1 {
			v.same, v.before, v.after = mode, v.fill(0), v.fill(0)
			return v, nil
		}
		total := v.extent(i) - 1
		if v.stride[i] != 1 {
			total = max(0, (ceilDiv(in, v.stride[i])-1)*v.stride[i]+v.extent(i)-in)
		}
		v.before[i], v.after[i] = split(total, mode == "SAME_LOWER")
	}
	return v, nil
}

// split halves a number; the odd one goes to the front or to the back.
func split(total int64, front bool) (before, after int64) {
	if front {
		return total - total/2, total / 2
	}
	return total / 2, total - total/2
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// spatial is the size of a spatial axis, where it is known.
func (t Type) spatial(i int) (int64, bool) {
	if !t.Ranked || i+2 >= len(t.Shape) || !t.Shape[i+2].Set {
		return 0, false
	}
	return t.Shape[i+2].Size, true
}

// spatialSizes are the sizes of all spatial axes, where they are known.
func (t Type) spatialSizes() ([]int64, bool) {
	if !t.Ranked || len(t.Shape) < 3 {
		return nil, false
	}
	return Type{Shape: t.Shape[2:], Ranked: true}.Static()
}

// slide gives the spatial axes of the output of a window that moves over x.
func (v window) slide(x Type) []ir.Dim {
	out := make([]ir.Dim, v.rank())
	if v.kernel == nil || len(x.Shape) != v.rank()+2 {
		return out
	}
	for i := range out {
		in := x.Shape[i+2]
		total := v.before[i] + v.after[i]
		switch {
		case v.same != "" && in.Set:
			out[i] = ir.Fixed(ceilDiv(in.Size, v.stride[i]))
		case v.stride[i] == 1 && (v.same != "" || total == v.extent(i)-1):
			out[i] = in
		case v.same == "" && in.Set && in.Size+total >= v.extent(i):
			out[i] = ir.Fixed(v.outputs(i, in.Size))
		}
	}
	return out
}

// outputs is the number of output places of an axis. A last window that starts behind x and the zeros in front of it
// is left out.
func (v window) outputs(i int, in int64) int64 {
	room := in + v.before[i] + v.after[i] - v.extent(i)
	if !v.ceil {
		return room/v.stride[i] + 1
	}
	out := ceilDiv(room, v.stride[i]) + 1
	if (out-1)*v.stride[i] >= in+v.before[i] {
		out--
	}
	return out
}

// windowGrad is the gradient of the node's first output, of which everything is known that is known of the output.
func (c *Context) windowGrad() string {
	dy := c.Grad(0)
	c.set(dy, merge(c.types[dy], c.types[c.Out(0)]))
	return dy
}
