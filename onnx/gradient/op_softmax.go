package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// softmaxGradient: y = exp(x) / sum exp(x), so x gets y (dy - sum(dy y)).
//
// Rows of nothing but -infinity, as attention has them where everything is masked, give NaN. A model that chooses
// something else in their place means that they do not count, so the gradient takes their y as 0.
func softmaxGradient(c *Context) error {
	y, dy, axes := c.normalised(c.Out(0), c.Grad(0))
	p := y
	if c.opset >= 9 && c.replaced(c.Out(0)) {
		p = c.Op("Where", c.Op("IsNaN", y), c.Scalar(y, 0), y)
	}
	weighted := c.Op("Mul", dy, p)
	mean := c.ReduceSum(weighted, axes, true)
	c.setNormalised(y, c.Op("Sub", weighted, c.Op("Mul", p, mean)))
	return nil
}

// replaced says whether a Where chooses between a value, maybe in another type, and something else.
func (c *Context) replaced(name string) bool {
	for _, n := range c.walk.nodes {
		if !slices.Contains(n.Input, name) {
			continue
		}
		switch n.OpType {
		case "Where":
			return true
		case "Cast", "Identity":
			if slices.ContainsFunc(n.Output, c.replaced) {
				return true
			}
		}
	}
	return false
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
