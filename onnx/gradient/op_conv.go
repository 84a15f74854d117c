package gradient

import (
	"fmt"

	"github.com/jempipe/jempipe/onnx/ir"
)

// convGradient: y[n,m,o] = bias[m] + sum over c and k of x[n, c, o stride + k dilation - before] weight[m,c,k], where c
// runs over the channels of m's group. The gradient of x is the transposed convolution of dy; that of the weight is the
// correlation of x with dy; that of the bias is dy summed over all but the channels.
func convGradient(c *Context) error {
	v, err := c.slidingWindow()
	if err != nil {
		return err
	}
	group, err := c.groups(v)
	if err != nil {
		return err
	}
	dy := c.windowGrad()
	if c.Needs(0) {
		c.SetGrad(0, c.windowInput(v, dy, c.In(1), c.In(0), group))
	}
	if c.Needs(1) {
		c.SetGrad(1, c.windowWeight(v, c.In(0), dy, c.In(1), group))
	}
	if c.Needs(2) {
		c.SetGrad(2, c.ReduceSum(dy, append([]int64{0}, v.axes()...), false))
	}
	return nil
}

// groups is the number of groups of channels that are convolved each for itself.
func (s *Site) groups(v window) (int64, error) {
	group := ir.AttrInt(s.Node, "group", 1)
	if w := s.Type(1); group < 1 || w.Ranked && (len(w.Shape) != v.rank()+2 || w.Shape[0].Set && w.Shape[0].Size%group != 0) {
		return 0, fmt.Errorf("its weights of shape %s do not go with %d spatial axes in %d groups", dims(w.Shape), v.rank(), group)
	}
	return group, nil
}

func inferConv(s *Site) []Type {
	x, w := s.Type(0), s.Type(1)
	v, err := s.slidingWindow()
	if err != nil {
		return []Type{{Elem: x.Elem}}
	}
	head := make([]ir.Dim, 2)
	if len(x.Shape) > 0 {
		head[0] = x.Shape[0]
	}
	if len(w.Shape) > 0 {
		head[1] = w.Shape[0]
	}
	return []Type{{Elem: x.Elem, Shape: append(head, v.slide(x)...), Ranked: true}}
}
