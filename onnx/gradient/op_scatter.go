package gradient

import (
	"fmt"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// scatterElementsGradient: y is data with updates written, or added, at indices along an axis, so the updates get what
// is there of dy. The data get dy; where they were overwritten, 0. The order in which equal indices overwrite each other
// is not defined, so each of them gets dy. It serves Scatter, the operator's name before operator set 11, too.
func scatterElementsGradient(c *Context) error {
	if c.Needs(2) {
		c.wantOpset(11, "gathering the gradient of the updates")
	}
	return c.unscatter("GatherElements", ir.Int("axis", ir.AttrInt(c.Node, "axis", 0)))
}

// scatterNDGradient is the same with indices that name parts of data by their first axes.
func scatterNDGradient(c *Context) error { return c.unscatter("GatherND") }

// unscatter gathers the gradient of the updates with the operator that reads where the node writes.
func (c *Context) unscatter(gather string, attrs ...*onnxpb.AttributeProto) error {
	reduction := ir.AttrString(c.Node, "reduction", "none")
	switch reduction {
	case "none":
		if c.Needs(0) {
			c.SetGrad(0, c.OpWith(c.Node.OpType, []string{c.Grad(0), c.In(1), c.fill(c.In(2), 0)}, attrs...))
		}
	case "add":
		c.passData()
	default:
		return fmt.Errorf(`it cannot be differentiated: its reduction is %q, supported are "none" and "add": gather the elements, combine them with Mul, Max or Min and scatter the result`, reduction)
	}
	if c.Needs(2) {
		c.SetGrad(2, c.OpWith(gather, []string{c.Grad(0), c.In(1)}, attrs...))
	}
	return nil
}

// passData passes dy on to input 0 as it is.
func (c *Context) passData() {
	if v, ok := c.Uniform(0); ok {
		c.SetUniform(0, v)
	} else {
		c.SetGrad(0, c.Grad(0))
	}
}
