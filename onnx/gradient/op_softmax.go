package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// softmaxGradient: y = exp(x) / sum exp(x), so x gets y (dy - sum(dy y)).
func softmaxGradient(c *Context) error {
	y, dy, axes := c.normalised(c.Out(0), c.Grad(0))
	weighted := c.Op("Mul", dy, y)
	mean := c.ReduceSum(weighted, axes, true)
	c.setNormalised(y, c.Op("Sub", weighted, c.Op("Mul", y, mean)))
	return nil
}

// logSoftmaxGradient: y = x - log sum exp(x), so x gets dy - exp(y) sum(dy).
func logSoftmaxGradient(c *Context) error {
	y, dy, axes := c.normalised(c.Out(0), c.Grad(0))
	total := c.ReduceSum(dy, axes, true)
	c.setNormalised(y, c.Op("Sub", dy, c.Op("Mul", c.Op("Exp", y), total)))
	return nil
}

// normalised gives the axes that a softmax runs over, and its output and the output's gradient in the shape that these
// are axes of. Since operator set 13 that is one axis, by default the last. Before it was all axes from the given one
// on, by default 1; where the rank is not known, the second of two axes to which the values are flattened.
func (c *Context) normalised(y, dy string) (string, string, []int64) {
	x := c.Type(0)
	if c.opset >= 13 {
		return y, dy, []int64{ir.AttrInt(c.Node, "axis", -1)}
	}
	given := ir.AttrInt(c.Node, "axis", 1)
	axis, ok := x.Axis(given)
	if !ok {
		flat := ir.Int("axis", given)
		return c.OpWith("Flatten", []string{y}, flat), c.OpWith("Flatten", []string{dy}, flat), []int64{1}
	}
	var axes []int64
	for i := axis; i < len(x.Shape); i++ {
		axes = append(axes, int64(i))
	}
	return y, dy, axes
}

// setNormalised sets the gradient of x, which has the shape of y as normalised gave it.
func (c *Context) setNormalised(y, dx string) {
	if y != c.Out(0) {
		dx = c.ReshapeLike(dx, c.In(0))
	}
	c.SetGrad(0, dx)
}
