package gradient

import (
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// flipChannels is the number of input channels from which a convolution with the flipped kernel is faster on a CPU than
// a transposed one: ONNX Runtime computes output channels in blocks of 8 or 16, which fewer channels leave mostly empty.
const flipChannels = 4

// convInput is the gradient of the input of a convolution.
func (c *Context) convInput(v convolution) string {
	if c.canFlip(v) {
		return c.flippedConv(v)
	}
	attrs := func(pads, more []int64) string {
		return c.OpWith("ConvTranspose", []string{c.Grad(0), c.In(1)},
			ir.Ints("kernel_shape", v.kernel...), ir.Ints("strides", v.stride...), ir.Ints("dilations", v.dilation...),
			ir.Ints("pads", pads...), ir.Ints("output_padding", more...), ir.Int("group", v.group))
	}
	// A transposed convolution covers (out-1) stride + extent places. The places of x behind that, which no output
	// sees because the stride does not fit, are added by output_padding.
	more := make([]int64, len(v.kernel))
	known := true
	for i := range v.kernel {
		if v.stride[i] == 1 {
			continue
		}
		in, ok := c.Type(0).spatial(i)
		known = known && ok
		more[i] = floorMod(in+v.before[i]+v.after[i]-v.extent(i), v.stride[i])
	}
	if known {
		return attrs(slices.Concat(v.before, v.after), more)
	}
	// The size of x is known only when the graph runs: more than enough places, of which those of x are cut out.
	c.wantOpset(10, "cutting to a size that is known only when the graph runs")
	for i := range more {
		more[i] = v.stride[i] - 1
	}
	full := attrs(make([]int64, 2*len(v.kernel)), more)
	size := c.Op("Slice", c.Op("Shape", c.In(0)), c.List(2), c.List(int64(2+len(v.kernel))), c.List(0))
	return c.Op("Slice", full, c.List(v.before...), c.Op("Add", size, c.List(v.before...)), c.List(v.spatialAxes()...))
}

func floorMod(a, b int64) int64 { return (a%b + b) % b }

// canFlip says whether the gradient may be a convolution of dy with the flipped kernel, and is faster so: that needs
// stride 1, padding within the kernel, and weights that ONNX Runtime can rearrange once, when it loads the model.
func (c *Context) canFlip(v convolution) bool {
	if v.group != 1 || c.opset < 10 || !c.walk.constant[c.In(1)] {
		return false
	}
	for i := range v.kernel {
		if v.stride[i] != 1 || max(v.before[i], v.after[i]) > v.extent(i)-1 {
			return false
		}
	}
	w := c.Type(1).Shape
	return len(w) == 2+len(v.kernel) && w[1].Set && w[1].Size >= flipChannels
}

func (c *Context) flippedConv(v convolution) string {
	n := len(v.kernel)
	first, last := slices.Repeat([]int64{-1}, n), slices.Repeat([]int64{math.MinInt64}, n)
	flipped := c.Op("Slice", c.In(1), c.List(first...), c.List(last...), c.List(v.spatialAxes()...), c.List(first...))
	weight := c.Transpose(flipped, append([]int64{1, 0}, v.spatialAxes()...)...)
	pads := make([]int64, 2*n)
	for i := range n {
		pads[i], pads[n+i] = v.extent(i)-1-v.before[i], v.extent(i)-1-v.after[i]
	}
	return c.OpWith("Conv", []string{c.Grad(0), weight}, ir.Ints("kernel_shape", v.kernel...),
		ir.Ints("dilations", v.dilation...), ir.Ints("pads", pads...))
}

func inferConvTranspose(s *Site) []Type {
	x, w := s.Type(0), s.Type(1)
	v, err := s.convolution()
	if err != nil || ir.Attr(s.Node, "output_shape") != nil || ir.Attr(s.Node, "auto_pad") != nil {
		return []Type{{Elem: x.Elem}}
	}
	n := len(v.kernel)
	more := listOr(s.Node, "output_padding", n, 0)
	shape := make([]ir.Dim, 2+n)
	if len(x.Shape) != len(shape) || len(w.Shape) != len(shape) || len(more) != n {
		return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
	}
	shape[0] = x.Shape[0]
	if w.Shape[1].Set {
		shape[1] = ir.Fixed(w.Shape[1].Size * v.group)
	}
	for i := range n {
		if in, ok := x.spatial(i); ok {
			shape[i+2] = ir.Fixed((in-1)*v.stride[i] + v.extent(i) + more[i] - v.before[i] - v.after[i])
		}
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
