package gradient

import (
	"fmt"
	"math"

	"github.com/jempipe/jempipe/onnx/ir"
)

// geluGradient: y = x P(x) with P the normal distribution function or its approximation by tanh.
func geluGradient(c *Context) error {
	var slope string
	switch approximate := ir.AttrString(c.Node, "approximate", "none"); approximate {
	case "none":
		slope = c.geluSlope(c.In(0))
	case "tanh":
		slope = c.geluTanhSlope(c.In(0), c.Out(0))
	default:
		return fmt.Errorf("attribute approximate is %q; it must be none or tanh", approximate)
	}
	c.multiplied(slope)
	return nil
}

// geluSlope is the derivative of x P(x), P(x) = (1 + erf(x / sqrt 2)) / 2: with u = x / sqrt 2 it is
// P(x) + u exp(-u^2) / sqrt(pi). HardSigmoid serves as (1 + e) / 2 in one step, and the factor of the exponential is
// taken into its exponent.
func (c *Context) geluSlope(x string) string {
	c.wantOpset(9, "the error function")
	u := c.Scale(x, 1/math.Sqrt2)
	p := c.OpWith("HardSigmoid", []string{c.Op("Erf", u)}, ir.Float("alpha", 0.5), ir.Float("beta", 0.5))
	exponent := c.Op("Sub", c.Scalar(x, -math.Log(math.Pi)/2), c.Op("Mul", u, u))
	return c.Op("Add", p, c.Op("Mul", u, c.Op("Exp", exponent)))
}

// geluTanhSlope is the derivative of y = x (1 + tanh(z / 2)) / 2 = x s with s = sigmoid(z), z = k (x + 0.044715 x^3) and
// k = sqrt(8 / pi): s + y (1 - s) dz/dx.
func (c *Context) geluTanhSlope(x, y string) string {
	k := math.Sqrt(8 / math.Pi)
	square := c.Op("Mul", x, x)
	z := c.Op("Mul", x, c.Op("Add", c.Scale(square, 0.044715*k), c.Scalar(x, k)))
	slope := c.Op("Add", c.Scale(square, 3*0.044715*k), c.Scalar(x, k))
	s := c.Op("Sigmoid", z)
	rest := c.Op("Mul", y, c.Op("Sub", c.Scalar(x, 1), s))
	return c.Op("Add", s, c.Op("Mul", rest, slope))
}
