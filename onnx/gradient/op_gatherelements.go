package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// gatherElementsGradient: y[.., j, ..] = x[.., index[.., j, ..], ..] along an axis, so x gets dy added at the indices.
func gatherElementsGradient(c *Context) error {
	in := []string{c.fill(c.In(0), 0), c.In(1), c.Grad(0)}
	axis := ir.Int("axis", ir.AttrInt(c.Node, "axis", 0))
	if c.elementsOnce() {
		c.SetGrad(0, c.OpWith("ScatterElements", in, axis))
		return nil
	}
	c.wantOpset(16, "adding up the gradient of elements that are used several times")
	c.SetGrad(0, c.OpWith("ScatterElements", in, axis, ir.String("reduction", "add")))
	return nil
}

// elementsOnce says whether constant indices name no element of the axis twice at one place of the other axes.
func (s *Site) elementsOnce() bool {
	values, known := s.ints[s.In(1)]
	shape, _ := s.Type(1).Static()
	axis, ok := s.Type(1).Axis(ir.AttrInt(s.Node, "axis", 0))
	if !known || !ok {
		return false
	}
	inner := 1
	for _, n := range shape[axis+1:] {
		inner *= int(n)
	}
	block := inner * int(shape[axis])
	for start := 0; block > 0 && start < len(values); start += block {
		for k := range inner {
			var line []int64
			for j := start + k; j < start+block; j += inner {
				line = append(line, values[j])
			}
			if !allDiffer(line) {
				return false
			}
		}
	}
	return true
}

func inferGatherElements(s *Site) []Type {
	return []Type{s.Type(1).withElem(s.Type(0).Elem)}
}
