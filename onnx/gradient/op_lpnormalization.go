package gradient

import (
	"fmt"

	"github.com/jempipe/jempipe/onnx/ir"
)

// lpNormalizationGradient: y = x / n with the norm n along one axis, so x gets (dy - y sum(dy y)) / n for the Euclidean
// norm and (dy - sign(x) sum(dy y)) / n for the sum of absolute values; 0 where n is 0, as y is.
func lpNormalizationGradient(c *Context) error {
	p := ir.AttrInt(c.Node, "p", 2)
	axis, ok := c.Type(0).Axis(ir.AttrInt(c.Node, "axis", -1))
	axes := []int64{int64(axis)}
	if !ok {
		axes[0] = ir.AttrInt(c.Node, "axis", -1)
	}
	var direction, norm string
	switch p {
	case 1:
		direction, norm = c.signs(c.In(0)), c.reduceWith("ReduceL1", c.In(0), axes, true)
	case 2:
		direction, norm = c.Out(0), c.reduceWith("ReduceL2", c.In(0), axes, true)
	default:
		return fmt.Errorf("its attribute p is %d: 1 and 2 are supported", p)
	}
	along := c.ReduceSum(c.Op("Mul", c.Grad(0), c.Out(0)), axes, true)
	inverse := c.Op("Div", c.signs(norm), c.atLeastTiny(norm))
	c.SetGrad(0, c.Op("Mul", c.Op("Sub", c.Grad(0), c.Op("Mul", direction, along)), inverse))
	return nil
}
