package gradient

import (
	"errors"

	"github.com/jempipe/jempipe/onnx/ir"
)

// featureVectorizerGradient: the inputs' columns stand side by side in y, so each input gets its columns of dy.
func featureVectorizerGradient(c *Context) error {
	widths := ir.AttrInts(c.Node, "inputdimensions")
	if len(widths) != len(c.Node.Input) {
		return errors.New("its attribute inputdimensions has not one number for each input")
	}
	start := int64(0)
	for i, width := range widths {
		if c.Needs(i) {
			piece := c.Slice(c.Grad(0), []int64{start}, []int64{start + width}, []int64{1})
			if len(c.Type(i).Shape) != 2 {
				piece = c.ReshapeLike(piece, c.In(i))
			}
			c.setConverted(i, piece)
		}
		start += width
	}
	return nil
}

func inferFeatureVectorizer(s *Site) []Type {
	out := Type{Elem: ir.Float32, Shape: []ir.Dim{{}, ir.Fixed(max(total(ir.AttrInts(s.Node, "inputdimensions")), 0))}, Ranked: true}
	if x := s.Type(0); len(x.Shape) == 2 {
		out.Shape[0] = x.Shape[0]
	}
	return []Type{out}
}
