package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// maxPoolGradient: y is the largest place of each window, which gets dy. Of equal places in a window the one that ONNX
// Runtime reports as the largest gets it; where the windows tile x, equal places share dy.
//
// For windows that tile x the winners are found by comparison: ONNX Runtime takes several times as long for a MaxPool
// that reports indices as for one that does not (BenchmarkPool). The comparison is an addition and a HardSigmoid, through
// which ONNX Runtime keeps its blocked layout for convolutions.
func maxPoolGradient(c *Context) error {
	v, err := c.pool()
	if err != nil {
		return err
	}
	dy, x := c.windowGrad(), c.In(0)
	rectified := c.rectified(x)
	if rectified { // the gradient of Relu at the winners alone, which are fewer places than those of x
		dy = c.Op("Mul", dy, c.positive(c.Out(0)))
	}
	in, fixed := c.types[x].spatialSizes()
	out, fixedOut := c.types[dy].spatialSizes()
	var dx string
	if c.types[x].Elem == ir.Float32 && fixed && fixedOut && v.tiles(in, out) && c.opset >= 11 {
		dx = c.maxByComparison(v, dy)
	} else {
		dx = c.maxByIndices(v, dy)
	}
	if rectified {
		c.walk.rectified[dx] = true
	}
	c.SetGrad(0, dx)
	return nil
}

// rectified says whether a value is the output of a Relu.
func (c *Context) rectified(name string) bool {
	n := c.walk.makers[name]
	return n != nil && n.OpType == "Relu" && ir.IsStandard(n.GetDomain())
}

// maxByComparison shares dy among the places of x that equal the largest of their window: where x - y, which is never
// above 0, is 0. A HardSigmoid, min(1, max(0, 3e38 (x - y) + 1)), tells; only differences below 4e-39 pass for 0.
func (c *Context) maxByComparison(v window, dy string) string {
	x, y := c.In(0), c.Out(0)
	below := c.Op("Add", x, c.magnify(c.negated(y), v.kernel))
	winners := c.OpWith("HardSigmoid", []string{below}, ir.Float("alpha", 3e38), ir.Float("beta", 1))
	// The mean of the winners is their number by the size of the window, so dy needs the same divisor.
	share := c.Op("Div", c.Scale(dy, 1/float64(v.taps())), c.OpWith("AveragePool", []string{winners},
		ir.Ints("kernel_shape", v.kernel...), ir.Ints("strides", v.stride...)))
	return c.Op("Mul", winners, c.magnify(share, v.kernel))
}

// negated is -x for x [N, C, ...], by a factor for each channel where their number is known: ONNX Runtime keeps its
// blocked layout through such a product, and not through Neg.
func (c *Context) negated(x string) string {
	t := c.types[x].Shape
	if len(t) < 3 || !t[1].Set {
		return c.Op("Neg", x)
	}
	shape := slices.Repeat([]int64{1}, len(t)-1)
	shape[0] = t[1].Size
	return c.Op("Mul", x, c.floats(x, shape, slices.Repeat([]float64{-1}, int(t[1].Size))))
}

// maxByIndices puts dy at the places that won.
func (c *Context) maxByIndices(v window, dy string) string {
	x, at := c.In(0), c.maxIndices()
	if c.types[x].Elem == ir.Float32 && v.apart() {
		c.wantOpset(9, "putting values at the indices of a MaxPool")
		// The places do not overlap. Windows of one place, stride 1, satisfy the operator's check of the size.
		return c.OpWith("MaxUnpool", []string{dy, at, c.ShapeOf(x)}, ir.Ints("kernel_shape", v.fill(1)...))
	}
	return c.ReshapeLike(c.scatterFlat(dy, at, x, !v.apart()), x)
}

// maxIndices gives the places that won, as indices into the flattened x [N, C, in...], from the node itself or from a
// second one: a further output of the node would be part of the forward graph.
func (c *Context) maxIndices() string {
	if out := c.Out(1); out != "" && ir.AttrInt(c.Node, "storage_order", 0) == 0 {
		return out
	}
	c.wantOpset(8, "the indices of a MaxPool")
	attrs := slices.DeleteFunc(slices.Clone(c.Node.Attribute), func(a *onnxpb.AttributeProto) bool { return a.Name == "storage_order" })
	prefix := "grad/" + scopeName(c.Node) + "/"
	value, at := c.g.Unique(prefix+"MaxPool"), c.g.Unique(prefix+"Indices")
	n := c.g.AddNamed(value, "MaxPool", []string{c.In(0)}, []string{value, at}, attrs...)
	c.node(n, nil)
	return at
}

// scatterFlat gives a list of as many zeros as x has elements, with values put, or added up, at indices.
func (c *Context) scatterFlat(values, at, x string, add bool) string {
	attrs := []*onnxpb.AttributeProto{ir.Int("axis", 0)}
	if add {
		c.wantOpset(16, "adding up what overlapping windows give to one place")
		attrs = append(attrs, ir.String("reduction", "add"))
	} else {
		c.wantOpset(11, "putting values at indices")
	}
	var size string
	if n, ok := product(c.types[x].Shape); ok && c.types[x].Ranked {
		size = c.List(n)
	} else {
		size = c.Op("Reshape", c.Op("Size", x), c.List(1))
	}
	zero := c.floats(x, []int64{1}, []float64{0})
	return c.OpWith("ScatterElements", []string{c.Op("Expand", zero, size), c.Op("Reshape", at, c.List(-1)), c.Op("Reshape", values, c.List(-1))}, attrs...)
}
