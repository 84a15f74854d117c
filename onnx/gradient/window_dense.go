package gradient

import "github.com/jempipe/jempipe/onnx/ir"

const (
	// denseFactor bounds how many times the arithmetic of a transposed convolution its matrix may take.
	denseFactor = 2
	denseLimit  = 1 << 20 // elements of that matrix
)

// fewPlaces says whether the gradient of x is faster as one product with the matrix of the transposed convolution, in
// which a weight stands once for each place of dy. For float32, constant weights and few places it takes little more
// arithmetic than a transposed convolution, which ONNX Runtime computes several times as slowly as a product, or no
// more than a flipped one.
func (c *Context) fewPlaces(v window, dy, w, x string, group int64) bool {
	in, fixed := c.types[x].spatialSizes()
	out, fixedOut := c.types[dy].spatialSizes()
	shape, known := c.types[w].Static()
	if c.walk.refit || !fixed || !fixedOut || !known || group != 1 || v.kernel == nil || v.same != "" || !c.walk.constant[w] ||
		c.types[x].Elem != ir.Float32 || c.opset < 9 {
		return false
	}
	places, results := places(in), places(out)
	fits := places <= denseFactor*v.taps()
	if c.canFlip(v, w, group) {
		fits = results <= v.taps()
	}
	return fits && shape[0]*results*shape[1]*places <= denseLimit
}

func places(sizes []int64) int64 {
	n := int64(1)
	for _, size := range sizes {
		n *= size
	}
	return n
}

// denseInput multiplies dy as [N, M out] with the matrix [M out, C in] whose rows are what the transposed convolution
// makes of one element of dy each. All of the matrix follows from constants, so that ONNX Runtime computes it once, when
// it loads the model.
func (c *Context) denseInput(v window, dy, w, x string) string {
	in, _ := c.types[x].spatialSizes()
	out, _ := c.types[dy].spatialSizes()
	shape, _ := c.types[w].Static()
	rows, columns := shape[0]*places(out), shape[1]*places(in)
	each := c.OpWith("EyeLike", []string{c.OpWith("ConstantOfShape", []string{c.List(rows, rows)})}, ir.Int("dtype", int64(ir.Float32)))
	each = c.Op("Reshape", each, c.List(append([]int64{rows, shape[0]}, out...)...))
	matrix := c.Op("Reshape", c.transposedConv(v, each, w, x, 1), c.List(rows, columns))
	dx := c.Op("MatMul", c.Op("Reshape", dy, c.List(0, rows)), matrix)
	return c.Op("Reshape", dx, c.List(append([]int64{0, shape[1]}, in...)...))
}
