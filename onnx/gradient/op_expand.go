package gradient

// expandGradient: x was repeated, so it gets dy summed over the axes along which it was.
func expandGradient(c *Context) error {
	c.SetBroadcast(0, c.Grad(0))
	return nil
}

func inferExpand(s *Site) []Type {
	return []Type{broadcast(s.Type(0), s.shapeFrom(1))}
}
