package gradient

// mishGradient: y = x t with t = tanh(softplus(x)), so x gets dy (t + x s (1 - t^2)) with s = sigmoid(x). As 1 + exp(x)
// is 1 / (1 - s), t = (1 - (1 - s)^2) / (1 + (1 - s)^2) = u / (2 - u) with u = s (2 - s), which needs no softplus: ONNX
// Runtime's Softplus takes as long as twenty of the operations here.
func mishGradient(c *Context) error {
	x := c.In(0)
	two := c.Scalar(x, 2)
	s := c.Op("Sigmoid", x)
	u := c.Op("Mul", s, c.Op("Sub", two, s))
	t := c.Op("Div", u, c.Op("Sub", two, u))
	rest := c.Op("Mul", c.Op("Mul", x, s), c.oneMinusSquare(t))
	c.multiplied(c.Op("Add", t, rest))
	return nil
}
