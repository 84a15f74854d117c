package gradient

import (
	"errors"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// The gradient of the weights of a convolution has three forms, of which the fastest one is chosen that the known
// shapes allow (measured with ONNX Runtime on a CPU at batches of 8 to 64; BenchmarkConvWeight measures them again).
const (
	// gatherChannels is the number of input channels from which rows of all channels are gathered: a row is copied as
	// a whole, which pays from some length on.
	gatherChannels = 8
	// oneHotLimit is the number of elements of the constant that takes windows apart in one grouped convolution.
	oneHotLimit = 1 << 16
)

// columnLimit is the number of elements that the windows of one sample may have when they are written out. Beyond it
// the memory is worth more than the time.
var columnLimit int64 = 1 << 22

// windowWeight is the gradient of the weights w [M, C/group, kernel...] where y [N, M, out...] came from windows over
// x [N, C, in...]:
//
//	dw[m,c,k] = sum over n and o of x[n, c, o stride + k dilation - before] dy[n,m,o].
func (c *Context) windowWeight(v window, x, dy, w string, group int64) string {
	columns, known := c.columnCount(v, x, dy)
	switch {
	case group == 1 && (v.kernel == nil || known && columns > columnLimit && v.same == ""):
		return c.weightBySwap(v, x, dy, w)
	case v.kernel == nil:
		c.fail(errors.New("it has groups, and the size of its kernel is not known: run ONNX shape inference on the model first"))
		return ""
	case group == 1 && !v.pointwise() && c.canGather(v, x, dy):
		return c.weightByGather(v, x, dy, w)
	}
	return c.weightByColumns(v, x, dy, w, group)
}

func (c *Context) columnCount(v window, x, dy string) (int64, bool) {
	t := c.types[x].Shape
	out, ok := c.types[dy].spatialSizes()
	if v.kernel == nil || !ok || len(t) < 2 {
		return 0, false
	}
	return product(append([]ir.Dim{t[1], ir.Fixed(v.taps())}, ir.FixedDims(out...)...))
}

func (c *Context) canGather(v window, x, dy string) bool {
	_, fixed := c.types[x].spatialSizes()
	_, fixedOut := c.types[dy].spatialSizes()
	if !fixed || !fixedOut {
		return false
	}
	in, out := c.types[x].Shape[1], c.types[dy].Shape[1]
	return in.Set && in.Size >= gatherChannels && out.Set
}

// weightByColumns writes the windows out as columns [N, C taps, out] and multiplies them with dy for each sample. The
// columns come from a convolution with one-hot kernels, so they follow its rules for padding and sizes.
func (c *Context) weightByColumns(v window, x, dy, w string, group int64) string {
	cols, per := c.columns(v, x), c.Op("Reshape", dy, c.List(0, 0, -1))
	sum := func(cols, per string, perm ...int64) string {
		return c.ReduceSum(c.Op("MatMul", cols, c.Transpose(per, perm...)), []int64{0}, false)
	}
	if group == 1 {
		return c.ReshapeLike(c.Transpose(sum(cols, per, 0, 2, 1), 1, 0), w)
	}
	in, out := c.types[x].Shape, c.types[dy].Shape
	if len(in) < 2 || len(out) < 2 || !in[1].Set || !out[1].Set {
		c.fail(errors.New("it has groups, and the number of its channels is not known: run ONNX shape inference on the model first"))
		return ""
	}
	cols = c.Op("Reshape", cols, c.List(0, group, in[1].Size/group*v.taps(), -1))
	per = c.Op("Reshape", per, c.List(0, group, out[1].Size/group, -1))
	return c.ReshapeLike(c.Transpose(sum(cols, per, 0, 1, 3, 2), 0, 2, 1), w)
}

// columns gives the windows over x as [N, C taps, out].
func (c *Context) columns(v window, x string) string {
	if v.pointwise() {
		return c.Op("Reshape", x, c.List(0, 0, -1))
	}
	attrs := c.windowAttrs(v, v.pads())
	if v.same != "" {
		attrs = replacePads(attrs, v.same)
	}
	taps := v.taps()
	if t := c.types[x].Shape; len(t) > 1 && t[1].Set && t[1].Size*taps*taps <= oneHotLimit {
		n := t[1].Size
		kernel := c.oneHot(x, n, v)
		return c.Op("Reshape", c.OpWith("Conv", []string{x, kernel}, append(attrs, ir.Int("group", n))...), c.List(0, 0, -1))
	}
	// Channel by channel, as if each were a sample: slower, but the constant is small and no size need be known.
	single := c.Op("Reshape", x, c.joined(c.List(-1, 1), c.spatialShape(x, v.rank())))
	each := c.OpWith("Conv", []string{single, c.oneHot(x, 1, v)}, attrs...)
	batch := c.Slice(c.Op("Shape", x), []int64{0}, []int64{1}, []int64{0})
	return c.Op("Reshape", c.Op("Reshape", each, c.joined(batch, c.List(-1), c.spatialShape(each, v.rank()))), c.List(0, 0, -1))
}

// replacePads states the padding by its rule.
func replacePads(attrs []*onnxpb.AttributeProto, mode string) []*onnxpb.AttributeProto {
	attrs = slices.DeleteFunc(attrs, func(a *onnxpb.AttributeProto) bool { return a.Name == "pads" })
	return append(attrs, ir.String("auto_pad", mode))
}

// joined puts lists together.
func (c *Context) joined(lists ...string) string { return c.OpWith("Concat", lists, ir.Int("axis", 0)) }

// oneHot is the kernel [channels taps, 1, kernel...] that copies each place of the window to an output channel.
func (c *Context) oneHot(like string, channels int64, v window) string {
	taps := v.taps()
	data := make([]float64, channels*taps*taps)
	for i := range channels * taps {
		data[i*taps+i%taps] = 1
	}
	return c.floats(like, append([]int64{channels * taps, 1}, v.kernel...), data)
}

// weightByGather copies for each window the rows [C] of its places, and multiplies all windows with all of dy at once:
// [N out, taps C]^T [N out, M].
func (c *Context) weightByGather(v window, x, dy, w string) string {
	in, _ := c.types[x].spatialSizes()
	out, _ := c.types[dy].spatialSizes()
	channels, results := c.types[x].Shape[1].Size, c.types[dy].Shape[1].Size
	index, padded := v.places(in, out)
	rows := c.Transpose(c.Op("Reshape", x, c.List(0, channels, -1)), 0, 2, 1)
	if padded { // the row that stands for all places beyond x
		rows = c.Pad(rows, []int64{0, 0, 0}, []int64{0, 1, 0})
	}
	windows := c.Op("Reshape", c.OpWith("Gather", []string{rows, c.List(index...)}, ir.Int("axis", 1)), c.List(-1, v.taps()*channels))
	per := c.Op("Reshape", c.Transpose(c.Op("Reshape", dy, c.List(0, results, -1)), 0, 2, 1), c.List(-1, results))
	grad := c.Op("Reshape", c.gemm(windows, per, 1, 0, 1), c.List(append(slices.Clone(v.kernel), channels, results)...))
	perm := []int64{int64(v.rank() + 1), int64(v.rank())}
	for i := range v.rank() {
		perm = append(perm, int64(i))
	}
	return c.ReshapeLike(c.Transpose(grad, perm...), w)
}

// places lists for each output place and each place of its window the index into the flattened x; one behind the last
// stands for places beyond x.
func (v window) places(in, out []int64) (index []int64, padded bool) {
	total := int64(1)
	for i := range in {
		total *= in[i]
	}
	for _, place := range grid(out) {
		for _, tap := range grid(v.kernel) {
			at := int64(0)
			for i := range in {
				p := place[i]*v.stride[i] + tap[i]*v.dilation[i] - v.before[i]
				if p < 0 || p >= in[i] {
					at, padded = total, true
					break
				}
				at = at*in[i] + p
			}
			index = append(index, at)
		}
	}
	return index, padded
}

// grid lists all positions in a box, the last axis fastest.
func grid(sizes []int64) [][]int64 {
	list := [][]int64{nil}
	for _, n := range sizes {
		var longer [][]int64
		for _, p := range list {
			for i := range n {
				longer = append(longer, append(slices.Clone(p), i))
			}
		}
		list = longer
	}
	return list
}

// weightBySwap is a convolution over the window's places of x as [C, N, in...] with the kernel dy as [M, N, out...], in
// which stride and dilation have changed places. Places of x that no window saw give more than kernel results; they
// are cut off. It needs the least memory, and the size of the kernel need not be known.
func (c *Context) weightBySwap(v window, x, dy, w string) string {
	if v.same != "" {
		c.fail(errors.New("it has auto_pad " + v.same + ", and the size of its kernel or input is not known: run ONNX shape inference on the model first"))
		return ""
	}
	swap := append([]int64{1, 0}, v.axes()...)
	all := c.OpWith("Conv", []string{c.Transpose(x, swap...), c.Transpose(dy, swap...)},
		ir.Ints("strides", v.dilation...), ir.Ints("dilations", v.stride...), ir.Ints("pads", v.pads()...))
	if v.kernel != nil {
		return c.Transpose(c.Slice(all, v.fill(0), v.kernel, v.axes()), swap...)
	}
	c.wantOpset(10, "cutting to a size that is known only when the graph runs")
	all = c.Op("Slice", all, c.List(v.fill(0)...), c.spatialShape(w, v.rank()), c.List(v.axes()...))
	return c.Transpose(all, swap...)
}
