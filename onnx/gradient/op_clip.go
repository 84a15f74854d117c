package gradient

import (
	"math"

	"github.com/jempipe/jempipe/onnx/ir"
)

// clipGradient: y = min(max(x, lo), hi), so x gets dy where lo < y < hi, else 0; on a bound 0 is taken. The output
// decides, not the input, so that ONNX Runtime may still fuse the operator with the convolution before it.
// lo gets the sum of dy where x < lo and hi the sum where x > hi. Where lo > hi, y is hi everywhere.
func clipGradient(c *Context) error {
	lo, hi := c.bound("min", 1), c.bound("max", 2)
	v, known := c.number(lo)
	switch {
	case !c.Needs(0):
	case lo == "" && hi == "":
		c.passSame(1)
	case known && v == 0 && hi == "":
		c.multiplied(c.positive(c.Out(0)))
	default:
		c.multiplied(c.between(c.Out(0), lo, hi))
	}
	if c.Needs(1) || c.Needs(2) {
		c.boundGradients(lo, hi)
	}
	return nil
}

// bound is the name of one of the bounds; "" where there is none.
func (c *Context) bound(attr string, input int) string {
	name := c.In(input)
	v, known := c.number(name)
	if a := ir.Attr(c.Node, attr); c.opset < 11 && a != nil {
		v, known = float64(a.GetF()), true
		name = c.Scalar(c.In(0), v)
	}
	// The default is the largest number of the type, in old operator sets that of float32.
	if known && !c.Needs(input) && math.Abs(v) >= math.MaxFloat32 && (v > 0) == (attr == "max") {
		return ""
	}
	return name
}

func (c *Context) boundGradients(lo, hi string) {
	x, dy := c.In(0), c.Grad(0)
	pass := func(i int, where string) { c.SetBroadcast(i, c.Op("Mul", dy, c.castLike(where, dy))) }
	var above string
	if hi != "" {
		raised := x
		if lo != "" {
			raised = c.Op("Max", x, lo)
		}
		above = c.Op("Greater", raised, hi)
		if c.Needs(2) {
			pass(2, above)
		}
	}
	if lo == "" || !c.Needs(1) {
		return
	}
	below := c.Op("Less", x, lo)
	if hi != "" {
		below = c.Op("And", below, c.Op("Not", above))
	}
	pass(1, below)
}
