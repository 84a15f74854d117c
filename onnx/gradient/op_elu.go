package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// eluGradient: y = x for x > 0, else alpha (exp(x) - 1), so x gets dy or alpha exp(x) dy. At x = 0 the slope alpha is
// taken.
func eluGradient(c *Context) error { return c.exponentialUnit(c.float("alpha", 1), 1) }

// seluGradient: y = gamma times that.
func seluGradient(c *Context) error {
	return c.exponentialUnit(c.float("alpha", 1.67326319217681884765625), c.float("gamma", 1.05070102214813232421875))
}

// exponentialUnit: for x <= 0 the slope is gamma alpha exp(x) = y + gamma alpha. HardSigmoid with a slope of
// 1 / (gamma alpha) gives min(1, y / (gamma alpha) + 1), which is the slope over gamma alpha there and 1 for x > 0.
func (c *Context) exponentialUnit(alpha, gamma float64) error {
	sign, slope := c.Out(0), ""
	if alpha > 0 && gamma > 0 {
		slope = c.Scale(c.clippedLine(sign, 1/(gamma*alpha)), gamma*alpha)
	} else { // the sign of y does not tell that of x
		sign = c.In(0)
		slope = c.Scale(c.Op("Exp", c.negativePart(sign)), gamma*alpha)
	}
	if alpha != 1 {
		slope = c.Op("Add", slope, c.step(sign, gamma*(1-alpha)))
	}
	c.multiplied(slope)
	return nil
}

// celuGradient: y = max(0, x) + min(0, alpha (exp(x / alpha) - 1)), so x gets dy for x > 0, else exp(x / alpha) dy, which
// is (y / alpha + 1) dy.
func celuGradient(c *Context) error {
	alpha, slope := c.float("alpha", 1), ""
	if alpha > 0 {
		slope = c.clippedLine(c.Out(0), 1/alpha)
	} else {
		slope = c.Op("Exp", c.Scale(c.negativePart(c.In(0)), 1/alpha))
	}
	c.multiplied(slope)
	return nil
}

// clippedLine is max(0, min(1, slope x + 1)).
func (c *Context) clippedLine(x string, slope float64) string {
	return c.OpWith("HardSigmoid", []string{x}, ir.Float("alpha", float32(slope)), ir.Float("beta", 1))
}
