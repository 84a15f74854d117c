package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// expandGradient: x was repeated, so it gets dy summed over the axes along which it was.
func expandGradient(c *Context) error {
	c.SetBroadcast(0, c.Grad(0))
	return nil
}

func inferExpand(s *Site) []Type {
	x := s.Type(0)
	target, ok := s.target(s.In(1))
	if shape := s.Type(1).Shape; !ok && len(shape) == 1 && shape[0].Set && shape[0].Size <= maxRank {
		target = Type{Shape: make([]ir.Dim, shape[0].Size), Ranked: true}
	}
	return []Type{broadcast(x, target)}
}
