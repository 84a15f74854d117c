package gradient

// expandGradient: x was repeated, so it gets dy summed over the axes along which it was.
func expandGradient(c *Context) error {
	c.SetBroadcast(0, c.Grad(0))
	return nil
}

func inferExpand(s *Site) []Type {
	x := s.Type(0)
	sizes, ok := s.ints[s.In(1)]
	if !ok {
		return []Type{{Elem: x.Elem}}
	}
	return []Type{broadcast(x, fixedType(sizes))}
}
