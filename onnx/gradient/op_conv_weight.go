package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// convWeight is the gradient of the weights of a convolution without groups,
//
//	dW[m,c,k] = sum over n and o of x[n, c, o stride + k dilation - before] dy[n,m,o],
//
// a convolution over k of x as [C, N, in...] with the kernel dy as [M, N, out...], in which stride and dilation have
// changed places. Places of x that the forward convolution left over give more than kernel results; they are cut off.
func (c *Context) convWeight(v convolution) string {
	n := len(v.kernel)
	swap := append([]int64{1, 0}, v.spatialAxes()...)
	pads := append(append([]int64{}, v.before...), v.after...)
	all := c.OpWith("Conv", []string{c.Transpose(c.In(0), swap...), c.Transpose(c.Grad(0), swap...)},
		ir.Ints("strides", v.dilation...), ir.Ints("dilations", v.stride...), ir.Ints("pads", pads...))
	exact := true
	for i := range n {
		in, ok := c.Type(0).spatial(i)
		exact = exact && ok && floorMod(in+v.before[i]+v.after[i]-v.extent(i), v.stride[i]) < v.dilation[i]
	}
	if !exact {
		all = c.Slice(all, make([]int64, n), v.kernel, v.spatialAxes())
	}
	return c.Transpose(all, swap...)
}
