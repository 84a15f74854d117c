package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// maxPoolGradient: y is the largest place of each window, which gets dy. Of equal places in a window the one that ONNX
// Runtime reports as the largest gets it; where the windows tile x, equal places share dy.
//
// For windows that tile x the winners are found by comparison, which took two thirds of the time that ONNX Runtime
// needs to report their indices.
func maxPoolGradient(c *Context) error {
	v, err := c.pool()
	if err != nil {
		return err
	}
	dy, x := c.windowGrad(), c.In(0)
	in, fixed := c.types[x].spatialSizes()
	out, fixedOut := c.types[dy].spatialSizes()
	single := c.types[x].Elem == ir.Float32
	if single && fixed && fixedOut && v.tiles(in, out) && c.opset >= 11 {
		winners := c.castLike(c.Op("Equal", x, c.magnify(c.Out(0), v.kernel)), x)
		// The mean of the winners is their number by the size of the window, so dy needs the same divisor.
		share := c.Op("Div", c.Scale(dy, 1/float64(v.taps())), c.OpWith("AveragePool", []string{winners},
			ir.Ints("kernel_shape", v.kernel...), ir.Ints("strides", v.stride...)))
		c.SetGrad(0, c.Op("Mul", winners, c.magnify(share, v.kernel)))
		return nil
	}
	at := c.maxIndices()
	if single && v.apart() && c.opset >= 9 {
		// The places do not overlap. Windows of one place, stride 1, satisfy the operator's check of the size.
		c.SetGrad(0, c.OpWith("MaxUnpool", []string{dy, at, c.ShapeOf(x)}, ir.Ints("kernel_shape", v.fill(1)...)))
		return nil
	}
	c.SetGrad(0, c.ReshapeLike(c.scatterFlat(dy, at, x, !v.apart()), x))
	return nil
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
