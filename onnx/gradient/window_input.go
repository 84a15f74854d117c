package gradient

import (
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// flipChannels is the number of input channels from which a convolution with the flipped kernel is faster on a CPU than
// a transposed one. ONNX Runtime computes output channels in blocks of up to 16, which fewer channels leave empty; but it
// shares a convolution out over threads, and a transposed one not.
const flipChannels = 8

// windowInput is the gradient of x where dy [N, M, out...] came from windows over x, weighted with w [M, C/group,
// kernel...]: each place of dy is spread over the window it came from,
//
//	dx[n, c, o stride + k dilation - before] = sum over m, o and k of dy[n,m,o] w[m,c,k].
func (c *Context) windowInput(v window, dy, w, x string, group int64) string {
	switch {
	case c.fewPlaces(v, dy, w, x, group):
		return c.denseInput(v, dy, w, x)
	case c.canFlip(v, w, group):
		return c.flippedConv(v, dy, w, group)
	case c.inPhases(v, dy, w, x, group):
		return c.phasedInput(v, dy, w, x)
	}
	return c.transposedConv(v, dy, w, x, group)
}

func (c *Context) transposedConv(v window, dy, w, x string, group int64) string {
	transposed := func(pads, more []int64) string {
		attrs := append(c.windowAttrs(v, pads), ir.Ints("output_padding", more...), ir.Int("group", group))
		return c.OpWith("ConvTranspose", []string{dy, w}, attrs...)
	}
	if more, ok := v.unseen(c.types[x], c.types[dy]); ok {
		return transposed(v.pads(), more)
	}
	// The size of x is known only when the graph runs: more than enough places, of which those of x are cut out.
	c.wantOpset(10, "cutting to a size that is known only when the graph runs")
	more := v.fill(0)
	for i := range more {
		more[i] = v.stride[i] - 1
	}
	full := transposed(make([]int64, 2*v.rank()), more)
	size, before := c.spatialShape(x, v.rank()), c.paddingBefore(v, x, dy, w)
	return c.Op("Slice", full, before, c.Op("Add", size, before), c.List(v.axes()...))
}

// windowAttrs states a geometry with other padding.
func (c *Context) windowAttrs(v window, pads []int64) []*onnxpb.AttributeProto {
	attrs := []*onnxpb.AttributeProto{ir.Ints("strides", v.stride...), ir.Ints("dilations", v.dilation...), ir.Ints("pads", pads...)}
	if v.kernel != nil {
		attrs = append(attrs, ir.Ints("kernel_shape", v.kernel...))
	}
	return attrs
}

// unseen gives the number of places at the end of each axis that no window sees, because the stride does not fit. A
// transposed convolution covers (out-1) stride + extent places and adds them by output_padding.
func (v window) unseen(x, y Type) ([]int64, bool) {
	more := v.fill(0)
	for i := range more {
		if v.kernel == nil || v.same != "" {
			return nil, false
		}
		if v.stride[i] == 1 {
			continue
		}
		in, ok := x.spatial(i)
		if !ok {
			return nil, false
		}
		more[i] = in + v.before[i] + v.after[i] - (v.outputs(i, in)-1)*v.stride[i] - v.extent(i)
		if more[i] < 0 || more[i] >= v.stride[i] {
			return nil, false
		}
	}
	return more, true
}

// spatialShape is the sizes of the spatial axes of a value as a list.
func (c *Context) spatialShape(x string, rank int) string {
	if sizes, ok := c.types[x].spatialSizes(); ok {
		return c.List(sizes...)
	}
	return c.Slice(c.Op("Shape", x), []int64{2}, []int64{int64(2 + rank)}, []int64{0})
}

// paddingBefore is the number of zeros in front of x as a list; w is the weight, which has the kernel's size where the
// file does not state it.
func (c *Context) paddingBefore(v window, x, y, w string) string {
	if v.same == "" {
		return c.List(v.before...)
	}
	var extent string
	fits := v.kernel != nil
	if v.kernel != nil {
		sizes := v.fill(0)
		for i := range sizes {
			sizes[i] = v.extent(i)
			fits = fits && sizes[i] >= v.stride[i]
		}
		extent = c.List(sizes...)
	} else {
		extent = c.Op("Sub", c.spatialShape(w, v.rank()), c.List(v.fill(1)...))
		extent = c.Op("Add", c.Op("Mul", extent, c.List(v.dilation...)), c.List(v.fill(1)...))
	}
	covered := c.Op("Mul", c.Op("Sub", c.spatialShape(y, v.rank()), c.List(1)), c.List(v.stride...))
	total := c.Op("Sub", c.Op("Add", covered, extent), c.spatialShape(x, v.rank()))
	if !fits { // a stride beyond the window may leave places over, which is no padding
		c.wantOpset(12, "auto_pad with a stride beyond the window and a size that is known only when the graph runs")
		total = c.Op("Max", total, c.List(0))
	}
	if v.same == "SAME_LOWER" {
		total = c.Op("Add", total, c.List(1))
	}
	return c.Op("Div", total, c.List(2))
}

// canFlip says whether the gradient may be a convolution of dy with the flipped kernel, and is faster so. That needs
// stride 1 and padding within the kernel. Without groups it also takes weights that ONNX Runtime can rearrange once,
// when it loads the model; with groups a transposed convolution is slow in any case.
func (c *Context) canFlip(v window, w string, group int64) bool {
	if v.kernel == nil || v.same != "" {
		return false
	}
	for i := range v.kernel {
		if v.stride[i] != 1 || max(v.before[i], v.after[i]) > v.extent(i)-1 {
			return false
		}
	}
	shape, known := c.types[w].Static()
	if group > 1 {
		return known
	}
	return c.walk.constant[w] && known && shape[1] >= flipChannels
}

// flippedConv is a convolution of dy in which the kernel is turned around and its channels of input and output, which
// are those of a group, have changed places.
func (c *Context) flippedConv(v window, dy, w string, group int64) string {
	weight := c.turned(v, w)
	shape, _ := c.types[w].Static()
	switch results, channels := shape[0]/group, shape[1]; {
	case group == 1:
		weight = c.Transpose(weight, append([]int64{1, 0}, v.axes()...)...)
	case results > 1 || channels > 1:
		weight = c.Op("Reshape", weight, c.List(append([]int64{group, results, channels}, v.kernel...)...))
		perm := []int64{0, 2, 1}
		for _, axis := range v.axes() {
			perm = append(perm, axis+1)
		}
		weight = c.Op("Reshape", c.Transpose(weight, perm...), c.List(append([]int64{group * channels, results}, v.kernel...)...))
	}
	before, after := v.fill(0), v.fill(0)
	for i := range before {
		before[i], after[i] = v.extent(i)-1-v.before[i], v.extent(i)-1-v.after[i]
	}
	attrs := append(c.windowAttrs(v, slices.Concat(before, after)), ir.Int("group", group))
	return c.OpWith("Conv", []string{dy, weight}, attrs...)
}

// turned is a weight whose kernel is turned around.
func (c *Context) turned(v window, w string) string {
	if c.opset >= 10 {
		first, last := v.fill(-1), v.fill(math.MinInt64)
		return c.Op("Slice", w, c.List(first...), c.List(last...), c.List(v.axes()...), c.List(first...))
	}
	for i, axis := range v.axes() { // Slice has no steps yet
		backwards := make([]int64, v.kernel[i])
		for k := range backwards {
			backwards[k] = v.kernel[i] - 1 - int64(k)
		}
		w = c.OpWith("Gather", []string{w, c.List(backwards...)}, ir.Int("axis", axis))
	}
	return w
}
