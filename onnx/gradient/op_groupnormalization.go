package gradient

import (
	"errors"

	"github.com/jempipe/jempipe/onnx/ir"
)

// groupNormalizationGradient: y = scale h + bias, where h is x standardised over groups of channels and the axes behind
// them. Scale and bias are numbers for each channel, before operator set 21 for each group.
func groupNormalizationGradient(c *Context) error {
	groups := ir.AttrInt(c.Node, "num_groups", 0)
	if groups <= 0 {
		return errors.New("its attribute num_groups is missing")
	}
	owners := int64(0) // what scale and bias belong to: channels, or that many groups
	if c.opset < 21 {
		owners = groups
	}
	dy := c.channelRows(c.Grad(0), owners)
	c.setChannels(2, dy)
	if !c.Needs(0) && !c.Needs(1) {
		return nil
	}
	s := c.standardise(c.channelRows(c.In(0), groups), c.epsilon())
	if c.Needs(1) {
		c.setChannels(1, c.Op("Mul", dy, c.shapedLike(c.result(s), dy)))
	}
	if !c.Needs(0) {
		return nil
	}
	scale := c.Unsqueeze(c.In(1), []int64{1})
	var dx string
	if owners == groups {
		dx = c.passStandardised(s, dy, scale)
	} else {
		dx = c.passStandardised(s, c.channelRows(c.Op("Mul", dy, scale), groups), "")
	}
	c.SetGrad(0, c.shapedLike(dx, c.In(0)))
	return nil
}
