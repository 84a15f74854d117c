package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// meanVarianceNormalizationGradient: y = (x - mean) / (sqrt(variance) + 1e-9) over some axes, by default all but the
// channels of images, so x gets what passStandardised says of dy.
func meanVarianceNormalizationGradient(c *Context) error {
	axes := ir.AttrInts(c.Node, "axes")
	if axes == nil {
		axes = []int64{0, 2, 3}
	}
	s := c.standardiseAxes(c.In(0), axes, 1e-18)
	s.hat, s.scaled = c.Out(0), true
	c.SetGrad(0, c.passStandardised(s, c.Grad(0), ""))
	return nil
}
