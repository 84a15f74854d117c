package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// softmaxGradient: y = exp(x) / sum exp(x), so x gets y (dy - sum(dy y)).
func softmaxGradient(c *Context) error {
	y := c.Out(0)
	axes := c.normalised()
	weighted := c.Op("Mul", c.Grad(0), y)
	mean := c.ReduceSum(weighted, axes, true)
	c.SetGrad(0, c.Op("Sub", weighted, c.Op("Mul", y, mean)))
	return nil
}

// logSoftmaxGradient: y = x - log sum exp(x), so x gets dy - exp(y) sum(dy).
func logSoftmaxGradient(c *Context) error {
	total := c.ReduceSum(c.Grad(0), c.normalised(), true)
	c.SetGrad(0, c.Op("Sub", c.Grad(0), c.Op("Mul", c.Op("Exp", c.Out(0)), total)))
	return nil
}

// normalised lists the axes that a softmax runs over. Before operator set 13 it ran over all axes from the given one
// on, by default 1; since then over the given one, by default the last.
func (c *Context) normalised() []int64 {
	rank := c.Rank(c.In(0))
	def := int64(-1)
	if c.opset < 13 {
		def = 1
	}
	axis, ok := c.Type(0).Axis(ir.AttrInt(c.Node, "axis", def))
	if !ok || c.opset >= 13 {
		return []int64{int64(axis)}
	}
	var axes []int64
	for i := axis; i < rank; i++ {
		axes = append(axes, int64(i))
	}
	return axes
}
