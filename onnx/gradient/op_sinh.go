package gradient

// sinhGradient: y = sinh(x), so x gets dy cosh(x).
func sinhGradient(c *Context) error { return c.hyperbolic() }

// coshGradient: y = cosh(x), so x gets dy sinh(x).
func coshGradient(c *Context) error { return c.hyperbolic() }

// hyperbolic takes either from sinh(x) + cosh(x) = exp(x): ONNX Runtime's Sinh and Cosh take twenty times as long as
// its Exp.
func (c *Context) hyperbolic() error {
	other := c.Op("Sub", c.Op("Exp", c.In(0)), c.Out(0))
	c.multiplied(other)
	return nil
}
