package gradient

import "math"

// powGradient: y = x^e, so x gets dy e x^(e - 1), and e gets dy y log(x), or 0 where x <= 0.
//
// A constant exponent gets a cheaper form: ONNX Runtime's Pow takes twenty times as long as a multiplication. For e > 0
// the gradient at x = 0 is finite, also for 0 < e < 1, where there is no derivative and 0 is taken.
func powGradient(c *Context) error {
	x := c.In(0)
	e, known := c.number(c.In(1))
	switch {
	case !c.Needs(0):
	case known && e == 0:
		c.SetUniform(0, 0)
	case known && e == 1:
		c.passBroadcast(0, 1)
	default:
		slope := ""
		if known {
			slope = c.powerSlope(x, e)
		} else {
			slope = c.powerSlopes(x, c.likeBase(c.In(1)))
		}
		if v, uniform := c.Uniform(0); uniform && sameShape(c.TypeOf(slope), c.TypeOf(c.Out(0))) {
			c.SetBroadcast(0, c.Scale(slope, v))
		} else {
			c.SetBroadcast(0, c.Op("Mul", c.Grad(0), slope))
		}
	}
	if c.Needs(1) {
		c.exponentGradient(x)
	}
	return nil
}

// powerSlope is e x^(e - 1) for one number e: beyond the first powers e y / x, which for e > 0 is 0 at x = 0, where y is
// 0 and the divisor is made 1.
func (c *Context) powerSlope(x string, e float64) string {
	switch {
	case e == 2:
		return c.Scale(x, 2)
	case e == 3:
		return c.Scale(c.Op("Mul", x, x), 3)
	case e > 0:
		return c.Scale(c.Op("Div", c.Out(0), c.Op("Add", x, c.zero(x))), e)
	}
	return c.Scale(c.Op("Div", c.Out(0), x), e)
}

// powerSlopes is the same for a tensor of exponents. Where both x is 0 and e is 1 it is 1.
func (c *Context) powerSlopes(x, e string) string {
	zero := c.zero(x)
	slope := c.Op("Mul", c.Op("Div", c.Out(0), c.Op("Add", x, zero)), e)
	return c.Op("Add", slope, c.Op("Mul", zero, c.zero(c.Op("Sub", e, c.Scalar(e, 1)))))
}

// exponentGradient: where x is at most 0 the logarithm, and maybe the power, is no number, so the result is chosen and
// not multiplied by a mask.
func (c *Context) exponentGradient(x string) {
	base, known := c.number(x)
	switch {
	case known && base <= 0:
		c.SetUniform(1, 0)
		return
	case known:
		c.setExponent(c.Scale(c.Op("Mul", c.Grad(0), c.Out(0)), math.Log(base)))
		return
	}
	c.wantOpset(9, "the gradient of an exponent")
	share := c.Op("Mul", c.Grad(0), c.Op("Mul", c.Out(0), c.Op("Log", x)))
	c.setExponent(c.Op("Where", c.Op("Greater", x, c.Scalar(x, 0)), share, c.Scalar(x, 0)))
}

// setExponent converts to the exponent's type, which may differ from that of the base since operator set 12.
func (c *Context) setExponent(grad string) {
	if e := c.Type(1).Elem; e != 0 && e != c.types[grad].Elem {
		grad = c.castLike(grad, c.In(1))
	}
	c.SetBroadcast(1, grad)
}

// likeBase converts an exponent to the type of the base.
func (c *Context) likeBase(e string) string {
	if c.types[e].Elem == c.Type(0).Elem {
		return e
	}
	return c.castLike(e, c.In(0))
}

func inferPow(s *Site) []Type { return []Type{inferBroadcast(s)[0].withElem(s.Type(0).Elem)} }
