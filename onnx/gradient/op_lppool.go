package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// lpPoolGradient: y = (sum over the window of |x|^p)^(1/p), so x gets sign(x) |x|^(p-1) times the sum of dy / y^(p-1)
// over the windows that see it. Where y is 0 the gradient is 0.
func lpPoolGradient(c *Context) error {
	v, err := c.pool()
	if err != nil {
		return err
	}
	c.SetGrad(0, c.timesPower(c.spread(v, c.overPower(c.windowGrad()), c.In(0), false, false)))
	return nil
}

// globalLpPoolGradient is that of a window over all of x.
func globalLpPoolGradient(c *Context) error {
	c.SetGrad(0, c.timesPower(c.overPower(c.Grad(0))))
	return nil
}

// overPower is dy / y^(p-1), and dy where y is 0.
func (c *Context) overPower(dy string) string {
	p := ir.AttrInt(c.Node, "p", 2)
	if p == 1 {
		return dy
	}
	y := c.Out(0)
	safe := c.Op("Where", c.Op("Greater", y, c.Scalar(y, 0)), y, c.Scalar(y, 1))
	if p > 2 {
		safe = c.Op("Pow", safe, c.Scalar(y, float64(p-1)))
	}
	return c.Op("Div", dy, safe)
}

// timesPower is g sign(x) |x|^(p-1).
func (c *Context) timesPower(g string) string {
	p, x := ir.AttrInt(c.Node, "p", 2), c.In(0)
	switch {
	case p == 2:
		return c.Op("Mul", x, g)
	case p%2 == 0: // the power is odd, so it has the sign of x
		return c.Op("Mul", c.Op("Pow", x, c.Scalar(x, float64(p-1))), g)
	}
	c.wantOpset(9, "the sign of a value")
	signed := c.Op("Mul", c.Op("Sign", x), g)
	if p == 1 {
		return signed
	}
	return c.Op("Mul", c.Op("Pow", x, c.Scalar(x, float64(p-1))), signed)
}
