package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// reduceMeanGradient: y = sum x / n, so every element of x gets dy / n.
func reduceMeanGradient(c *Context) error {
	r := c.reduction()
	if n, ok := c.averaged(r); ok {
		if v, uniform := c.Uniform(0); uniform {
			c.SetUniform(0, v/float64(n))
			return nil
		}
		if r.none {
			c.SetGrad(0, c.Grad(0))
			return nil
		}
		c.SetGrad(0, c.ExpandLike(c.Scale(c.unreduced(r, c.Grad(0)), 1/float64(n)), c.In(0)))
		return nil
	}
	// n is how many times more elements x has than y.
	size := func(name string) string { return c.castLike(c.Op("Size", name), c.In(0)) }
	n := c.Op("Div", size(c.In(0)), size(c.Out(0)))
	c.SetGrad(0, c.ExpandLike(c.Op("Div", c.unreduced(r, c.Grad(0)), n), c.In(0)))
	return nil
}

// averaged is the number of elements that one mean is taken of, where it is known.
func (c *Context) averaged(r reduction) (int64, bool) {
	if r.none {
		return 1, true
	}
	if !r.known {
		return 0, false
	}
	var along []ir.Dim
	for _, a := range r.axes {
		along = append(along, c.Type(0).Shape[a])
	}
	n, ok := product(along)
	return n, ok && n > 0
}
