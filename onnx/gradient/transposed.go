package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// The methods below are the transposes of linear maps that move elements: they take a gradient back to where the
// elements came from and add up where one went to several places.

const (
	maxLayers = 3       // elements that repeat more often than that are summed by a matrix product
	maxMatrix = 1 << 20 // elements of a constant matrix, beyond which its rows are scattered instead

	maxIndices = 1 << 24 // size of an axis, beyond which no lists of indices are made
)

// Int is an integer constant without dimensions.
func (c *Context) Int(v int64) string {
	t := ir.Int64Tensor("const_int", v)
	t.Dims = nil
	return c.Const(t)
}

// Floats is a constant of a shape with the element type of a value.
func (c *Context) Floats(like string, shape []int64, values []float64) string {
	out := &onnxpb.TensorProto{Name: "const_floats", DataType: c.types[like].Elem, Dims: slices.Clone(shape)}
	for _, v := range values {
		t, err := ir.ScalarTensor("", out.DataType, v)
		if err != nil {
			c.Scalar(like, v) // reports the same with the name of the value
			return ""
		}
		out.RawData = append(out.RawData, t.RawData...)
	}
	return c.Const(out)
}

// int64Of converts a list of indices, which may be of type int32, to int64.
func (c *Context) int64Of(name string) string {
	if c.types[name].Elem == ir.Int64 {
		return name
	}
	return c.OpWith("Cast", []string{name}, ir.Int("to", int64(ir.Int64)))
}

// sizeOf is the size of an axis as a list of one number; the axis may count from the end.
func (c *Context) sizeOf(name string, axis int64) string {
	t := c.types[name]
	if i, ok := t.Axis(axis); ok && t.Shape[i].Set {
		return c.List(t.Shape[i].Size)
	}
	return c.Op("Gather", c.Op("Shape", name), c.List(axis))
}

// padAxis puts zeros around a value along one axis.
func (c *Context) padAxis(x string, axis int, before, after int64) string {
	rank := c.Rank(x)
	if c.err != nil {
		return ""
	}
	b, a := make([]int64, rank), make([]int64, rank)
	b[axis], a[axis] = before, after
	return c.Pad(x, b, a)
}

// reverse turns the order of the elements round along an axis.
func (c *Context) reverse(x string, axis int) string {
	c.wantOpset(10, "reversing an axis")
	return c.Op("Slice", x, c.List(-1), c.List(lowest), c.List(int64(axis)), c.List(-1))
}

// ungather is the transpose of y = Gather(x, index, axis) for a constant list of indices into an axis of size n, none
// of which is negative: it gives the gradient of x.
func (c *Context) ungather(dy string, axis int, index []int64, n int64) string {
	if first, ok := ascending(index); ok {
		return c.padAxis(dy, axis, first, n-first-int64(len(index)))
	}
	if n > maxIndices {
		return c.scatterRows(dy, axis, c.List(index...), n)
	}
	layers, missing := inverses(index, n)
	if len(layers) > maxLayers {
		if n*int64(len(index)) > maxMatrix {
			return c.scatterRows(dy, axis, c.List(index...), n)
		}
		rows := make([][]float64, len(index))
		for i, to := range index {
			rows[i] = make([]float64, n)
			rows[i][to] = 1
		}
		return c.multiplyAxis(dy, axis, rows, n)
	}
	if missing {
		dy = c.padAxis(dy, axis, 0, 1) // the place that elements without a source are taken from
	}
	terms := make([]string, len(layers))
	for i, from := range layers {
		terms[i] = c.OpWith("Gather", []string{dy, c.List(from...)}, ir.Int("axis", int64(axis)))
	}
	if len(terms) == 1 {
		return terms[0]
	}
	return c.Op("Sum", terms...)
}

// ascending says whether a list of indices is a range, and where that begins.
func ascending(index []int64) (first int64, ok bool) {
	for i, v := range index {
		if v != index[0]+int64(i) {
			return 0, false
		}
	}
	if len(index) == 0 {
		return 0, true
	}
	return index[0], true
}

// inverses gives, for each of n places, where in a list of indices it occurs first, second, ...; where it does not, the
// length of the list.
func inverses(index []int64, n int64) (layers [][]int64, missing bool) {
	times := make([]int, n)
	for i, to := range index {
		if times[to] == len(layers) {
			layers = append(layers, slices.Repeat([]int64{int64(len(index))}, int(n)))
		}
		layers[times[to]][to] = int64(i)
		times[to]++
	}
	return layers, slices.ContainsFunc(times, func(k int) bool { return k < len(layers) })
}

// scatterRows adds the rows of dy along an axis to the rows of a zero tensor that an integer list names.
func (c *Context) scatterRows(dy string, axis int, index string, n int64) string {
	t := c.types[dy]
	shape := c.Op("Shape", dy)
	target := c.List(n)
	if rank := int64(len(t.Shape)); rank > 1 {
		head, tail := c.Slice(shape, []int64{0}, []int64{int64(axis)}, []int64{0}), c.Slice(shape, []int64{int64(axis) + 1}, []int64{rank}, []int64{0})
		target = c.OpWith("Concat", []string{head, target, tail}, ir.Int("axis", 0))
	}
	zeros := c.Op("Expand", c.Scalar(dy, 0), target)
	return c.scatterAdd(zeros, c.alongAxis(index, dy, axis), dy, axis, false)
}

// alongAxis repeats a list of indices into an axis to the shape of a value of known rank.
func (c *Context) alongAxis(index, like string, axis int) string {
	column := slices.Repeat([]int64{1}, c.Rank(like))
	if c.err != nil {
		return ""
	}
	column[axis] = -1
	return c.ExpandLike(c.Op("Reshape", index, c.List(column...)), like)
}

// scatterAdd adds updates to a zero tensor at the indices along an axis. ScatterND would take fewer indices, but ONNX
// Runtime's adds in parallel without locks, so that equal indices lose contributions.
func (c *Context) scatterAdd(zeros, indices, updates string, axis int, unique bool) string {
	in := []string{zeros, indices, updates}
	if unique {
		c.wantOpset(11, "scattering a gradient")
		return c.OpWith("ScatterElements", in, ir.Int("axis", int64(axis)))
	}
	c.wantOpset(16, "adding up the gradient of elements that are used several times")
	return c.OpWith("ScatterElements", in, ir.Int("axis", int64(axis)), ir.String("reduction", "add"))
}

// multiplyAxis multiplies along an axis with the transpose of a constant matrix: row k says how much each of the n elements
// of x went into element k of y.
func (c *Context) multiplyAxis(dy string, axis int, rows [][]float64, n int64) string {
	rank, m := c.Rank(dy), len(rows)
	if c.err != nil {
		return ""
	}
	flat := make([]float64, 0, m*int(n))
	if axis == rank-2 {
		for j := range n {
			for _, row := range rows {
				flat = append(flat, row[j])
			}
		}
		return c.Op("MatMul", c.Floats(dy, []int64{n, int64(m)}, flat), dy)
	}
	for _, row := range rows {
		flat = append(flat, row...)
	}
	matrix := c.Floats(dy, []int64{int64(m), n}, flat)
	if axis == rank-1 {
		return c.Op("MatMul", dy, matrix)
	}
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[axis], perm[rank-1] = perm[rank-1], perm[axis]
	return c.Transpose(c.Op("MatMul", c.Transpose(dy, perm...), matrix), perm...)
}

// sumCopies sums the gradient over copies of input 0 along its axes. An axis of size n that was repeated is split into
// the copies and n where whole copies follow each other, into n and the copies where those of an element do.
func (c *Context) sumCopies(times []int64, whole bool) string {
	var target, sum []int64
	var from []int // the axis of x that has the size, -1 for copies
	leading := true
	for i, d := range c.Type(0).Shape {
		size := int64(-1)
		switch {
		case d.Set && d.Size > 0:
			size = d.Size
		case leading && times[i] == 1:
			size = 0 // Reshape takes that of dy's axis at the same place
		}
		switch {
		case times[i] == 1:
			target, from = append(target, size), append(from, i)
			continue
		case whole:
			sum = append(sum, int64(len(target)))
			target, from = append(target, times[i], size), append(from, -1, i)
		default:
			sum = append(sum, int64(len(target)+1))
			target, from = append(target, size, times[i]), append(from, i, -1)
		}
		leading = false
	}
	if len(sum) == 0 {
		return c.Grad(0)
	}
	return c.ReduceSum(c.Op("Reshape", c.Grad(0), c.targetShape(target, from)), sum, false)
}

// targetShape is a constant where at most one size, -1, is not known; otherwise sizes are taken from the axes of input 0
// that are named, and one without such an axis is left to Reshape.
func (c *Context) targetShape(target []int64, from []int) string {
	if first := slices.Index(target, -1); first < 0 || !slices.Contains(target[first+1:], -1) {
		return c.List(target...)
	}
	parts := make([]string, len(target))
	for i, size := range target {
		if size == -1 && from[i] >= 0 {
			parts[i] = c.sizeOf(c.In(0), int64(from[i]))
		} else {
			parts[i] = c.List(size)
		}
	}
	return c.OpWith("Concat", parts, ir.Int("axis", 0))
}

// scatterMoved gives input 0 its gradient where the node moves, repeats or drops elements in a way that is known only
// when the graph runs. The node's operation is done on the positions of the elements in row-major order, and the
// gradient is then added at the positions that came out. unique says that no element went to two places.
func (c *Context) scatterMoved(unique bool, move func(positions string) string) {
	c.wantOpset(11, "finding the positions of elements when the graph runs")
	shape := c.ShapeOf(c.In(0))
	size := c.Op("Size", c.In(0))
	positions := c.Op("Reshape", c.Op("Range", c.Int(0), size, c.Int(1)), shape)
	flat := c.List(-1)
	zeros := c.Op("Expand", c.Scalar(c.In(0), 0), c.Op("Reshape", size, c.List(1)))
	sum := c.scatterAdd(zeros, c.Op("Reshape", move(positions), flat), c.Op("Reshape", c.Grad(0), flat), 0, unique)
	c.SetGrad(0, c.Op("Reshape", sum, shape))
}

// again is the node itself on another first input.
func (c *Context) again(x string) string {
	in := slices.Clone(c.Node.Input)
	in[0] = x
	return c.OpWith(c.Node.OpType, in, c.Node.Attribute...)
}
