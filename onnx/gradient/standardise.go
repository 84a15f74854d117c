package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// standardised is a value divided by its root mean square over axes, after its mean was taken off if it is centred.
type standardised struct {
	axes    []int64
	centred bool
	// hat is the result, or the value before the division where scaled is not set.
	hat    string
	scaled bool
	// inverse is 1 / sqrt(mean square + epsilon), with size 1 at the axes.
	inverse string
}

// standardise computes (x - mean) / sqrt(variance + epsilon) over the last axis of a value of known rank.
//
// ONNX Runtime's kernel for LayerNormalization takes half the time of the single operations. It gives the inverse
// deviation in single precision, so wider types go without it.
func (c *Context) standardise(x string, epsilon float64) standardised {
	last := int64(c.Rank(x) - 1)
	if c.opset < 17 || c.types[x].Elem != ir.Float32 {
		return c.standardiseAxes(x, []int64{last}, epsilon)
	}
	var size string
	if d := c.types[x].Shape[last]; d.Set {
		size = c.List(d.Size)
	} else {
		size = c.Slice(c.Op("Shape", x), []int64{last}, []int64{last + 1}, []int64{0})
	}
	one := ir.Float32Tensor("", []int64{1}, []float32{1})
	scale := c.OpWith("ConstantOfShape", []string{size}, ir.TensorAttr("value", one))
	out := c.outputs("LayerNormalization", []string{x, scale}, 3, ir.Int("axis", last), ir.Float("epsilon", float32(epsilon)))
	return standardised{axes: []int64{last}, centred: true, hat: out[0], scaled: true, inverse: out[2]}
}

// standardiseAxes does the same over any axes, and leaves the division undone.
func (c *Context) standardiseAxes(x string, axes []int64, epsilon float64) standardised {
	centred := c.Op("Sub", x, c.reduceWith("ReduceMean", x, axes, true))
	s := c.rootMeanSquare(centred, axes, epsilon)
	s.centred = true
	return s
}

// rootMeanSquare finds 1 / sqrt(mean x^2 + epsilon).
func (c *Context) rootMeanSquare(x string, axes []int64, epsilon float64) standardised {
	root := c.Op("Sqrt", c.Op("Add", c.meanSquare(x, axes), c.Scalar(x, epsilon)))
	return standardised{axes: axes, hat: x, inverse: c.Op("Reciprocal", root)}
}

// meanSquare is the mean of x^2. With a known number of elements the squares need not be stored.
func (c *Context) meanSquare(x string, axes []int64) string {
	var along []ir.Dim
	for _, a := range axes {
		if axis, ok := c.types[x].Axis(a); ok {
			along = append(along, c.types[x].Shape[axis])
		}
	}
	if n, ok := product(along); ok && n > 0 && len(along) == len(axes) {
		return c.Scale(c.reduceWith("ReduceSumSquare", x, axes, true), 1/float64(n))
	}
	return c.reduceWith("ReduceMean", c.Op("Mul", x, x), axes, true)
}

// passStandardised gives the gradient of the value from that of the result, g, times a factor that is constant along the
// axes, if there is one. With the result h and the inverse r that is
//
//	r (g - mean(g) - h mean(g h)),
//
// without the mean of g where the value was not centred.
func (c *Context) passStandardised(s standardised, g, factor string) string {
	slope := c.reduceWith("ReduceMean", c.Op("Mul", g, s.hat), s.axes, true)
	if !s.scaled {
		slope = c.Op("Mul", slope, c.Op("Mul", s.inverse, s.inverse))
	}
	rest := g
	if s.centred {
		rest = c.Op("Sub", g, c.reduceWith("ReduceMean", g, s.axes, true))
	}
	by := s.inverse
	if factor != "" {
		by = c.Op("Mul", by, factor)
	}
	return c.Op("Mul", c.Op("Sub", rest, c.Op("Mul", s.hat, slope)), by)
}

// result is the standardised value itself.
func (c *Context) result(s standardised) string {
	if s.scaled {
		return s.hat
	}
	return c.Op("Mul", s.hat, s.inverse)
}

// channelRows gives a value of shape (batch, channels, ...) one last axis in place of those behind the channels, which
// are divided into groups where groups is not 0.
func (c *Context) channelRows(x string, groups int64) string {
	if len(c.types[x].Shape) == 3 && groups == 0 {
		return x
	}
	return c.Op("Reshape", x, c.List(0, groups, -1))
}

// setChannels adds to the gradient of an input with one number a channel a tensor of shape (batch, channels, n).
func (c *Context) setChannels(i int, name string) {
	if c.Needs(i) {
		c.SetGrad(i, c.ReduceSum(name, []int64{0, 2}, false))
	}
}

// epsilon is the number that a normalisation adds to a variance.
func (c *Context) epsilon() float64 { return float64(ir.AttrFloat(c.Node, "epsilon", 1e-5)) }
