package gradient

import (
	"math"

	"github.com/jempipe/jempipe/onnx/ir"
)

// imputerGradient: missing elements of x are replaced by constants, so they get 0 and the others dy.
func imputerGradient(c *Context) error {
	x := c.In(0)
	missing := float64(ir.AttrFloat(c.Node, "replaced_value_float", 0))
	var mask string
	if math.IsNaN(missing) {
		mask = c.Op("IsNaN", x)
	} else {
		c.wantOpset(11, "comparing floating-point values for equality")
		mask = c.Op("Equal", x, c.Scalar(x, missing))
	}
	c.SetGrad(0, c.Op("Where", mask, c.Scalar(x, 0), c.Grad(0)))
	return nil
}
