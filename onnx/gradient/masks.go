package gradient

import (
	"math"

	"github.com/jempipe/jempipe/onnx/ir"
)

// The methods below compute masks: 1, or a given number, where a condition holds. On the CPU, ONNX Runtime's Where and
// Sign take several times as long as the forms here.

// positive is 1 where a value is above 0, else 0. In float32 one HardSigmoid, min(1, max(0, 3e38 x)), does it; of
// the positive numbers only those below 3e-39 give less than 1.
func (c *Context) positive(x string) string {
	if c.types[x].Elem == ir.Float32 {
		return c.OpWith("HardSigmoid", []string{x}, ir.Float("alpha", 3e38), ir.Float("beta", 0))
	}
	return c.castLike(c.Op("Greater", x, c.Scalar(x, 0)), x)
}

// complement is 1 - x for x from 0 to 1. In float32 that is a HardSigmoid, to the last bit: ONNX Runtime keeps a value in
// its blocked layout for convolutions through that operator, and not through Sub.
func (c *Context) complement(x string) string {
	if c.types[x].Elem == ir.Float32 {
		return c.OpWith("HardSigmoid", []string{x}, ir.Float("alpha", -1), ir.Float("beta", 1))
	}
	return c.Op("Sub", c.Scalar(x, 1), x)
}

// step is the number `to` where a value is above 0, else 0.
func (c *Context) step(x string, to float64) string {
	if to == 1 {
		return c.positive(x)
	}
	if y, ok := c.saturate(x, math.Copysign(1, to), math.Min(to, 0), math.Max(to, 0)); ok {
		return y
	}
	return c.Scale(c.positive(x), to)
}

// sign is -1, 0 or 1 as a value is below, at or above 0.
func (c *Context) sign(x string) string {
	if y, ok := c.saturate(x, 1, -1, 1); ok {
		return y
	}
	c.wantOpset(9, "the sign of a value")
	return c.Op("Sign", x)
}

// saturate is hi where x times a direction is above 0, lo where it is below, and 0 brought between the two at 0, for a
// direction of 1 or -1: a huge multiple of x is clipped. It is not available in all types.
func (c *Context) saturate(x string, direction, lo, hi float64) (string, bool) {
	huge := 0.0
	switch elem := c.types[x].Elem; {
	case elem == ir.Float32:
		huge = 3e38
	case elem == ir.Float64 && c.opset >= 12: // Clip takes float32 only before
		huge = 1e300
	default:
		return "", false
	}
	x = c.Scale(x, direction*huge)
	if c.opset < 11 {
		return c.OpWith("Clip", []string{x}, ir.Float("min", float32(lo)), ir.Float("max", float32(hi))), true
	}
	return c.Op("Clip", x, c.Scalar(x, lo), c.Scalar(x, hi)), true
}

// between is 1 where lo < x < hi, else 0. The bounds are names of scalars; "" is no bound, and there must be one.
func (c *Context) between(x, lo, hi string) string {
	var inside string
	switch {
	case hi == "":
		inside = c.Op("Greater", x, lo)
	case lo == "":
		inside = c.Op("Less", x, hi)
	default:
		inside = c.Op("And", c.Op("Greater", x, lo), c.Op("Less", x, hi))
	}
	return c.castLike(inside, x)
}

// zero is 1 where a value is 0, else 0.
func (c *Context) zero(x string) string {
	nonzero := c.OpWith("Cast", []string{x}, ir.Int("to", int64(ir.Bool)))
	return c.castLike(c.Op("Not", nonzero), x)
}

// negativePart is min(x, 0).
func (c *Context) negativePart(x string) string { return c.Op("Sub", x, c.Op("Relu", x)) }
