package gradient

// reluGradient: y = max(x, 0), so x gets dy where y > 0, else 0. At x = 0, where there is no derivative, 0 is taken.
// The output decides, not the input, so that ONNX Runtime may still fuse the operator with the convolution before it.
func reluGradient(c *Context) error {
	if dy := c.grads[0].name; c.walk.rectified[dy] {
		c.SetGrad(0, dy)
		return nil
	}
	c.multiplied(c.positive(c.Out(0)))
	return nil
}

// thresholdedReluGradient: y = x for x > alpha, else 0, so x gets dy where x > alpha. Where alpha is not negative, that
// is where y > 0.
func thresholdedReluGradient(c *Context) error {
	alpha := c.float("alpha", 1)
	mask := ""
	if alpha >= 0 {
		mask = c.positive(c.Out(0))
	} else {
		mask = c.between(c.In(0), c.Scalar(c.In(0), alpha), "")
	}
	c.multiplied(mask)
	return nil
}
