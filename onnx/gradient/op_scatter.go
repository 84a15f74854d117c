package gradient

import (
	"errors"
	"fmt"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// scatterElementsGradient: y is data with updates written, added, ... at indices along an axis, so the updates get what is
// there of dy. The data get
//
//	none: dy, and 0 where they were overwritten; the order of equal indices is not defined, so each of them gets dy
//	add: dy
//	mul: dy times the product of the updates
//	max, min: dy where they are the extreme; so do the updates, and several that share it all get dy
//
// It serves Scatter, the operator's name before operator set 11, too.
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
	read := func(x string) string { return c.OpWith(gather, []string{x, c.In(1)}, attrs...) }
	dy := c.Grad(0)
	switch reduction := ir.AttrString(c.Node, "reduction", "none"); reduction {
	case "none":
		if c.Needs(0) {
			c.SetGrad(0, c.OpWith(c.Node.OpType, []string{dy, c.In(1), c.fill(c.In(2), 0)}, attrs...))
		}
	case "add":
		c.passData()
	case "mul":
		if c.Needs(2) {
			return errors.New(`with reduction "mul" it cannot be differentiated with respect to its updates: multiply with Mul, where indices are not repeated, and scatter the product`)
		}
		c.SetGrad(0, c.Op("Mul", dy, c.OpWith(c.Node.OpType, []string{c.fill(c.In(0), 1), c.In(1), c.In(2)}, c.Node.Attribute...)))
	case "max", "min":
		winners := func(x, extreme, grad string) string {
			return c.Op("Mul", grad, c.castLike(c.Op("Equal", x, extreme), x))
		}
		if c.Needs(0) {
			c.SetGrad(0, winners(c.In(0), c.Out(0), dy))
		}
		if c.Needs(2) {
			c.SetGrad(2, winners(c.In(2), read(c.Out(0)), read(dy)))
		}
		return nil
	default:
		return fmt.Errorf(`its reduction is %q, supported are "none", "add", "mul", "max" and "min"`, reduction)
	}
	if c.Needs(2) {
		c.SetGrad(2, read(dy))
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
