package gradient

import (
	"errors"

	"github.com/jempipe/jempipe/onnx/ir"
)

// modGradient: y = a - b trunc(a / b), so a gets dy and b gets -dy trunc(a / b), which is dy (y - a) / b.
func modGradient(c *Context) error {
	if ir.AttrInt(c.Node, "fmod", 0) == 0 {
		return errors.New("attribute fmod is 0, which is for integers only: floating-point values need fmod=1")
	}
	c.passBroadcast(0, 1)
	if c.Needs(1) {
		times := c.Op("Div", c.Op("Sub", c.Out(0), c.In(0)), c.In(1))
		c.SetBroadcast(1, c.Op("Mul", c.Grad(0), times))
	}
	return nil
}
