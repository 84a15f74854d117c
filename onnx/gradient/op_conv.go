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
	group, err := c.groups()
	if err != nil {
		return err
	}
	if c.Needs(0) {
		c.SetGrad(0, c.convInput(v, group))
	}
	if c.Needs(1) {
		c.SetGrad(1, c.windowWeight(v, c.In(0), c.windowGrad(), c.In(1), group))
	}
	if c.Needs(2) {
		c.SetGrad(2, c.ReduceSum(c.windowGrad(), append([]int64{0}, v.axes()...), false))
	}
	return nil
}

func (s *Site) groups() (int64, error) {
	group := ir.AttrInt(s.Node, "group", 1)
	if group < 1 {
		return 0, fmt.Errorf("its attribute group is %d", group)
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
