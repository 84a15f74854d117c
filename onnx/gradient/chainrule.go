package gradient

// The methods below are the chain rule for values of the output's shape: they set the gradient of the first input, or
// give it. A uniform gradient of the output is not written out in full for that.

// multiplied gives the input the output's gradient times the slope, a value of the same shape.
func (c *Context) multiplied(slope string) { c.SetGrad(0, c.timesGrad(slope)) }

// timesGrad is the output's gradient times a value of the same shape.
func (c *Context) timesGrad(slope string) string {
	if v, ok := c.Uniform(0); ok {
		return c.Scale(slope, v)
	}
	return c.Op("Mul", c.Grad(0), slope)
}

// divided gives the input a number times the output's gradient over a divisor, a value of the same shape.
func (c *Context) divided(factor float64, divisor string) {
	if v, ok := c.Uniform(0); ok {
		c.SetGrad(0, c.Op("Div", c.Scalar(divisor, factor*v), divisor))
		return
	}
	c.SetGrad(0, c.Op("Div", c.Scale(c.Grad(0), factor), divisor))
}
