package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// matrixSize is the largest size of an axis for which spreading over windows is a matrix product. The matrix of an axis
// is mostly zero, so the product is wasteful for a long axis, and the fastest form for a short one.
const matrixSize = 128

// spread gives each place of x the sum of what the windows that see it have in dy [N, C, out...]:
//
//	dx[n, c, o stride + k dilation - before] = sum over o and k of dy[n,c,o] / count[o],
//
// with the number of places that a window counts on each axis, or 1 without counts. Windows are boxes, so for known
// sizes this is a product with one constant matrix [in, out] an axis. counts is what windowCounts gives.
func (c *Context) spread(v window, dy, x string, counts bool, padded bool) string {
	in, fixed := c.types[x].spatialSizes()
	out, fixedOut := c.types[dy].spatialSizes()
	single := c.types[x].Elem == ir.Float32
	fixed = fixed && fixedOut && v.same == ""
	switch {
	case fixed && v.tiles(in, out) && single && c.opset >= 10:
		if counts {
			dy = c.Scale(dy, 1/float64(v.taps()))
		}
		return c.magnify(dy, v.kernel)
	case fixed && (slices.Max(in) <= matrixSize || !single):
		return c.spreadByMatrix(v, dy, in, out, counts, padded)
	case counts:
		dy = c.Op("Div", dy, c.windowCounts(v, dy, x, padded))
	}
	return c.spreadByConv(v, dy, x)
}

// tiles says that the windows cover x without gap or overlap.
func (v window) tiles(in, out []int64) bool {
	for i := range in {
		if in[i] != out[i]*v.stride[i] {
			return false
		}
	}
	return v.dense()
}

// magnify repeats each place of a float32 value along its spatial axes.
func (c *Context) magnify(x string, factors []int64) string {
	scales := []float64{1, 1}
	for _, f := range factors {
		scales = append(scales, float64(f))
	}
	list := c.floats(x, []int64{int64(len(scales))}, scales)
	if c.opset < 11 {
		return c.OpWith("Resize", []string{x, list}, ir.String("mode", "nearest"))
	}
	roi := ""
	if c.opset < 13 { // not yet optional, though nothing reads it here
		roi = c.floats(x, []int64{0}, nil)
	}
	return c.OpWith("Resize", []string{x, roi, list}, ir.String("mode", "nearest"),
		ir.String("coordinate_transformation_mode", "asymmetric"), ir.String("nearest_mode", "floor"))
}

// counted is the number of places that window o counts on an axis: those of x, and with padded those of the zeros
// around it too.
func (v window) counted(i int, o, in int64, padded bool) int64 {
	first, last := int64(0), in
	if padded {
		first, last = -v.before[i], in+v.after[i]
	}
	n := int64(0)
	for k := range v.kernel[i] {
		if at := o*v.stride[i] + k*v.dilation[i] - v.before[i]; at >= first && at < last {
			n++
		}
	}
	return n
}

// spreadMatrix is the matrix [in, out] of an axis: 1 / count where the window sees the place.
func (v window) spreadMatrix(i int, in, out int64, counts, padded bool) []float64 {
	m := make([]float64, in*out)
	for o := range out {
		share := 1.0
		if counts {
			share = 1 / float64(v.counted(i, o, in, padded))
		}
		for k := range v.kernel[i] {
			if at := o*v.stride[i] + k*v.dilation[i] - v.before[i]; at >= 0 && at < in {
				m[at*out+o] = share
			}
		}
	}
	return m
}

func (c *Context) spreadByMatrix(v window, dy string, in, out []int64, counts, padded bool) string {
	last := v.rank() - 1
	matrix := func(i int) []float64 { return v.spreadMatrix(i, in[i], out[i], counts, padded) }
	right := transposed(matrix(last), in[last], out[last])
	dx := c.Op("MatMul", dy, c.floats(dy, []int64{out[last], in[last]}, right))
	size := in[last] // of the axes that are done
	for i := last - 1; i >= 0; i-- {
		if i < last-1 {
			dx = c.Op("Reshape", dx, c.List(slices.Concat([]int64{0, 0}, out[:i+1], []int64{size})...))
		}
		dx = c.Op("MatMul", c.floats(dy, []int64{in[i], out[i]}, matrix(i)), dx)
		size *= in[i]
	}
	if last > 1 {
		dx = c.Op("Reshape", dx, c.List(append([]int64{0, 0}, in...)...))
	}
	return dx
}

// transposed turns a matrix of some rows and columns over.
func transposed(m []float64, rows, cols int64) []float64 {
	out := make([]float64, len(m))
	for r := range rows {
		for k := range cols {
			out[k*rows+r] = m[r*cols+k]
		}
	}
	return out
}

// spreadByConv is a transposed convolution with a kernel of ones, each channel for itself.
func (c *Context) spreadByConv(v window, dy, x string) string {
	if t := c.types[x].Shape; len(t) > 1 && t[1].Set {
		return c.windowInput(v, dy, c.allOnes(x, append([]int64{t[1].Size, 1}, v.kernel...)), x, t[1].Size)
	}
	n := v.rank()
	single := c.Op("Reshape", dy, c.joined(c.List(-1, 1), c.spatialShape(dy, n)))
	each := c.windowInput(v, single, c.allOnes(x, append([]int64{1, 1}, v.kernel...)), x, 1)
	return c.ReshapeLike(each, x)
}

func (c *Context) allOnes(like string, shape []int64) string {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return c.floats(like, shape, slices.Repeat([]float64{1}, int(n)))
}

// windowCounts is the number of places that each window counts, as [1, 1, out...] or a number, for sizes that are known
// only when the graph runs: a convolution of ones with ones. A last window that reaches beyond the padding counts what
// is inside; ones that start there are cut off.
func (c *Context) windowCounts(v window, dy, x string, padded bool) string {
	if v.same == "" && !v.ceil && (padded || slices.Max(v.before) == 0 && slices.Max(v.after) == 0) {
		return c.Scalar(x, float64(v.taps()))
	}
	if v.same != "" && padded {
		return c.Scalar(x, float64(v.taps()))
	}
	c.wantOpset(9, "counting the places of windows over an input of unknown size")
	size := c.spatialShape(x, v.rank())
	before, after := slices.Clone(v.before), slices.Clone(v.after)
	if padded {
		around := v.fill(0)
		for i := range around {
			around[i] = before[i] + after[i]
		}
		size = c.Op("Add", size, c.List(around...))
		before, after = v.fill(0), v.fill(0)
	}
	if v.ceil {
		for i := range after {
			after[i] += v.stride[i] - 1
		}
	}
	attrs := c.windowAttrs(v, slices.Concat(before, after))
	if v.same != "" {
		attrs = replacePads(attrs, v.same)
	}
	places := c.Op("Expand", c.allOnes(x, []int64{1}), c.joined(c.List(1, 1), size))
	counts := c.OpWith("Conv", []string{places, c.allOnes(x, append([]int64{1, 1}, v.kernel...))}, attrs...)
	if !v.ceil {
		return counts
	}
	c.wantOpset(10, "cutting to a size that is known only when the graph runs")
	return c.Op("Slice", counts, c.List(v.fill(0)...), c.spatialShape(dy, v.rank()), c.List(v.axes()...))
}
