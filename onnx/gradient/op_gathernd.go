package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// gatherNDGradient: the last axis of the indices names a part of x, so that part gets dy added.
func gatherNDGradient(c *Context) error {
	c.scatterMoved(false, c.again)
	return nil
}

func inferGatherND(s *Site) []Type {
	x, index := s.Type(0), s.Type(1)
	batch := ir.AttrInt(s.Node, "batch_dims", 0)
	rank := len(index.Shape)
	if !x.Ranked || rank == 0 || !index.Shape[rank-1].Set || batch < 0 {
		return []Type{{Elem: x.Elem}}
	}
	first := batch + index.Shape[rank-1].Size
	if first < 0 || first > int64(len(x.Shape)) {
		return []Type{{Elem: x.Elem}}
	}
	return []Type{{Elem: x.Elem, Shape: slices.Concat(index.Shape[:rank-1], x.Shape[first:]), Ranked: true}}
}
