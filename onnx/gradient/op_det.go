package gradient

// inferDet: one number for each of the matrices in the last two axes.
func inferDet(s *Site) []Type {
	x := s.Type(0)
	if !x.Ranked || len(x.Shape) < 2 {
		return []Type{{Elem: x.Elem}}
	}
	return []Type{{Elem: x.Elem, Shape: x.Shape[:len(x.Shape)-2], Ranked: true}}
}
