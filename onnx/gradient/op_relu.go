package gradient

// reluGradient: y = max(x, 0), so x gets dy where y > 0, else 0. At x = 0, where there is no derivative, 0 is taken.
// The output decides, not the input, so that ONNX Runtime may still fuse the operator with the convolution before it.
func reluGradient(c *Context) error {
	c.SetGrad(0, c.Op("Mul", c.Grad(0), c.positive(c.Out(0))))
	return nil
}

// positive is 1 where a value is above 0, else 0.
func (c *Context) positive(x string) string {
	return c.castLike(c.Op("Greater", x, c.Scalar(x, 0)), x)
}
