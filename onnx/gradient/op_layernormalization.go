package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// layerNormalizationGradient: y = scale h + bias, where h is x standardised over the n elements of the axes from the
// given one on. So x gets what passStandardised says of scale dy, scale gets dy h and bias gets dy, both summed over the
// other axes. Of the further outputs, the mean m and r = 1 / sqrt(variance + epsilon), x gets (dm - r^2 h dr) / n.
func layerNormalizationGradient(c *Context) error {
	if c.HasGrad(0) {
		c.SetBroadcast(2, c.Grad(0))
	}
	if !c.Needs(0) && !c.Needs(1) {
		return nil
	}
	s := c.standardise(c.layerRows(c.In(0)), c.epsilon())
	if c.Needs(0) {
		c.layerStatistics(s)
	}
	if c.HasGrad(0) {
		return c.layerGradient(s)
	}
	return nil
}

// layerStatistics passes the gradients of mean and inverse deviation on.
func (c *Context) layerStatistics(s standardised) {
	var dx string
	if c.HasGrad(2) {
		h := c.result(s)
		dr := c.castLike(c.layerRows(c.Grad(2)), h)
		dx = c.Op("Mul", h, c.Op("Mul", c.Op("Neg", dr), c.Op("Mul", s.inverse, s.inverse)))
	}
	if c.HasGrad(1) {
		dm := c.castLike(c.layerRows(c.Grad(1)), s.hat)
		if dx == "" {
			dx = c.ExpandLike(dm, s.hat)
		} else {
			dx = c.Op("Add", dx, dm)
		}
	}
	if dx != "" {
		n := c.castLike(c.Slice(c.Op("Shape", s.hat), []int64{1}, []int64{2}, []int64{0}), s.hat)
		c.SetGrad(0, c.shapedLike(c.Op("Div", dx, n), c.In(0)))
	}
}

// rmsNormalizationGradient: y = scale x / sqrt(mean x^2 + epsilon), the mean over the axes from the given one on.
func rmsNormalizationGradient(c *Context) error {
	x := c.layerRows(c.In(0))
	return c.layerGradient(c.rootMeanSquare(x, []int64{1}, c.epsilon()))
}

// layerGradient passes dy on to the value that was standardised in rows, and to the scale.
func (c *Context) layerGradient(s standardised) error {
	dy := c.Grad(0)
	if c.Needs(1) {
		c.SetBroadcast(1, c.Op("Mul", dy, c.shapedLike(c.result(s), c.In(0))))
	}
	if c.Needs(0) {
		g := c.layerRows(c.Op("Mul", dy, c.In(1)))
		c.SetGrad(0, c.shapedLike(c.passStandardised(s, g, ""), c.In(0)))
	}
	return nil
}

// layerRows gives a value one axis in place of those that are normalised over and one in place of the others.
func (c *Context) layerRows(v string) string {
	axis := ir.AttrInt(c.Node, "axis", -1)
	if from, ok := c.Type(0).Axis(axis); ok && from == 1 && len(c.Type(0).Shape) == 2 {
		return v
	}
	return c.OpWith("Flatten", []string{v}, ir.Int("axis", axis))
}

func inferLayerNormalization(s *Site) []Type {
	x := s.Type(0)
	stat := Type{Elem: int32(ir.AttrInt(s.Node, "stash_type", int64(ir.Float32)))}
	if axis, ok := x.Axis(ir.AttrInt(s.Node, "axis", -1)); ok {
		stat.Shape, stat.Ranked = slices.Clone(x.Shape), true
		for i := axis; i < len(stat.Shape); i++ {
			stat.Shape[i] = ir.Fixed(1)
		}
	}
	return []Type{x, stat, stat}
}
