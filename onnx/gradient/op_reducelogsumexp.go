package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// reduceLogSumExpGradient: y = log sum exp(x), so x gets dy softmax(x) = dy exp(x - y).
func reduceLogSumExpGradient(c *Context) error {
	r := c.reduction()
	p := c.softmaxOver(r)
	if v, ok := c.Uniform(0); ok {
		c.SetGrad(0, c.Scale(p, v))
		return nil
	}
	c.SetGrad(0, c.Op("Mul", p, c.unreduced(r, c.Grad(0))))
	return nil
}

// softmaxOver uses the operator where it can express the axes, which is one operation instead of two.
func (c *Context) softmaxOver(r reduction) string {
	last := len(r.axes) == 1 && r.axes[0] == int64(len(c.Type(0).Shape)-1)
	if r.known && !r.none && len(r.axes) == 1 && (last || c.opset >= 13) {
		return c.OpWith("Softmax", []string{c.In(0)}, ir.Int("axis", r.axes[0]))
	}
	return c.Op("Exp", c.Op("Sub", c.In(0), c.unreduced(r, c.Out(0))))
}
