package gradient

// addGradient: y = a + b, so both get dy.
func addGradient(c *Context) error { return sumGradient(c) }

// sumGradient: y = a + b + ..., so every term gets dy.
func sumGradient(c *Context) error {
	for i := range c.Node.Input {
		c.passBroadcast(i, 1)
	}
	return nil
}

// subGradient: y = a - b, so a gets dy and b gets -dy.
func subGradient(c *Context) error {
	c.passBroadcast(0, 1)
	c.passBroadcast(1, -1)
	return nil
}

// passBroadcast gives an input the output's gradient times a factor. Where the input was not repeated, a uniform
// gradient stays one.
func (c *Context) passBroadcast(i int, factor float64) {
	if !c.Needs(i) {
		return
	}
	if v, ok := c.Uniform(0); ok && sameShape(c.Type(i), c.TypeOf(c.Out(0))) {
		c.SetUniform(i, factor*v)
		return
	}
	c.SetGrad(i, c.Scale(c.reduceTo(c.Grad(0), c.In(i)), factor))
}

func sameShape(a, b Type) bool {
	if !a.Ranked || !b.Ranked || len(a.Shape) != len(b.Shape) {
		return false
	}
	for i, d := range a.Shape {
		if !d.Same(b.Shape[i]) {
			return false
		}
	}
	return true
}
