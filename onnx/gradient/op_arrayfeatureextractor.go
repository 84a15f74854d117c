package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// arrayFeatureExtractorGradient: y picks columns of x, so x gets dy added at the columns that were picked.
func arrayFeatureExtractorGradient(c *Context) error {
	rank := c.Rank(c.In(0))
	if c.err != nil || rank == 0 {
		return nil
	}
	dy, last := c.Grad(0), rank-1
	if rank == 1 { // y has an axis more
		dy = c.Squeeze(dy, []int64{0})
	}
	columns := c.Type(0).Shape[last]
	if index, known := c.ints[c.In(1)]; known && columns.Set {
		if from, ok := countedFromStart(index, columns.Size); ok {
			c.SetGrad(0, c.ungather(dy, last, from, columns.Size))
			return nil
		}
	}
	list := c.Op("Reshape", c.In(1), c.List(-1))
	c.SetGrad(0, c.scatterAdd(c.fill(c.In(0), 0), c.alongAxis(list, dy, last), dy, last, false))
	return nil
}

func inferArrayFeatureExtractor(s *Site) []Type {
	x := s.Type(0)
	if !x.Ranked || len(x.Shape) == 0 {
		return []Type{{Elem: x.Elem}}
	}
	shape := slices.Clone(x.Shape)
	shape[len(shape)-1] = ir.Dim{}
	if count, ok := product(s.Type(1).Shape); ok && s.Type(1).Ranked {
		shape[len(shape)-1] = ir.Fixed(count)
	}
	if len(shape) == 1 {
		shape = []ir.Dim{ir.Fixed(1), shape[0]}
	}
	return []Type{{Elem: x.Elem, Shape: shape, Ranked: true}}
}
