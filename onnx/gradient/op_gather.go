package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// gatherGradient: y picks rows of x along an axis, so x gets dy added at the rows that were picked. Constant indices
// need no scattering: a range is padded, other rows are picked back.
func gatherGradient(c *Context) error {
	axis, ok := c.Type(0).Axis(ir.AttrInt(c.Node, "axis", 0))
	index := c.Type(1)
	if !ok || !index.Ranked {
		c.scatterMoved(false, c.again)
		return nil
	}
	dy := c.gatheredRows(axis)
	size := c.Type(0).Shape[axis]
	values, known := c.ints[c.In(1)]
	if known && size.Set {
		if from, ok := countedFromStart(values, size.Size); ok {
			c.SetGrad(0, c.ungather(dy, axis, from, size.Size))
			return nil
		}
	}
	unique := known && allDiffer(values)
	if count, ok := product(index.Shape); ok && count == 1 {
		unique = true
	}
	list := c.In(1)
	if len(index.Shape) != 1 {
		list = c.Op("Reshape", list, c.List(-1))
	}
	c.SetGrad(0, c.scatterAdd(c.fill(c.In(0), 0), c.alongAxis(list, dy, axis), dy, axis, unique))
	return nil
}

// gatheredRows is dy with one axis in place of those of the indices.
func (c *Context) gatheredRows(axis int) string {
	dy, x, index := c.Grad(0), c.Type(0), c.Type(1)
	switch len(index.Shape) {
	case 0:
		return c.Unsqueeze(dy, []int64{int64(axis)})
	case 1:
		return dy
	}
	target, from := make([]int64, len(x.Shape)), make([]int, len(x.Shape))
	for i, d := range x.Shape {
		target[i], from[i] = -1, i
		switch {
		case i == axis:
			from[i] = -1
		case i < axis:
			target[i] = 0 // Reshape takes the size of dy's axis at the same place
		case d.Set && d.Size > 0:
			target[i] = d.Size
		}
	}
	if count, ok := product(index.Shape); ok && count > 0 {
		target[axis] = count
	}
	return c.Op("Reshape", dy, c.targetShape(target, from))
}

// countedFromStart replaces negative indices into an axis of size n; false where one lies outside.
func countedFromStart(index []int64, n int64) ([]int64, bool) {
	out := make([]int64, len(index))
	for i, v := range index {
		if v < 0 {
			v += n
		}
		if v < 0 || v >= n {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}

// allDiffer says whether indices differ whatever the size of the axis, so none may count from the end if others do not.
func allDiffer(index []int64) bool {
	seen := map[int64]bool{}
	for _, v := range index {
		if seen[v] || (v < 0) != (index[0] < 0) {
			return false
		}
		seen[v] = true
	}
	return true
}

func inferGather(s *Site) []Type {
	x, index := s.Type(0), s.Type(1)
	axis, ok := x.Axis(ir.AttrInt(s.Node, "axis", 0))
	if !ok || !index.Ranked {
		return []Type{{Elem: x.Elem}}
	}
	return []Type{{Elem: x.Elem, Shape: slices.Concat(x.Shape[:axis], index.Shape, x.Shape[axis+1:]), Ranked: true}}
}
