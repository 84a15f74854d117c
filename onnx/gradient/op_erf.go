package gradient

import "math"

// erfGradient: y = erf(x), so x gets dy 2 / sqrt(pi) exp(-x^2). The factor is taken into the exponent, where it costs
// nothing.
func erfGradient(c *Context) error {
	x := c.In(0)
	exponent := c.Op("Sub", c.Scalar(x, math.Log(2/math.Sqrt(math.Pi))), c.Op("Mul", x, x))
	c.multiplied(c.Op("Exp", exponent))
	return nil
}
