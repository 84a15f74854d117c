package gradient

import (
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// concatGradient: each input gets its piece of dy along the axis.
func concatGradient(c *Context) error {
	if v, ok := c.Uniform(0); ok {
		for i := range c.Node.Input {
			c.SetUniform(i, v)
		}
		return nil
	}
	start := int64(0)
	for i := range c.Node.Input {
		axis, ok := c.Type(i).Axis(ir.AttrInt(c.Node, "axis", 1))
		if !ok || !c.Type(i).Shape[axis].Set {
			return fmt.Errorf("the size of its input %q along the axis is not known: run ONNX shape inference on the model first", c.In(i))
		}
		end := start + c.Type(i).Shape[axis].Size
		if c.Needs(i) {
			c.SetGrad(i, c.Slice(c.Grad(0), []int64{start}, []int64{end}, []int64{int64(axis)}))
		}
		start = end
	}
	return nil
}

func inferConcat(s *Site) []Type {
	first := s.Type(0)
	axis, ok := first.Axis(ir.AttrInt(s.Node, "axis", 1))
	if !ok {
		return []Type{{Elem: first.Elem}}
	}
	shape := slices.Clone(first.Shape)
	var along []ir.Dim
	for i := range s.Node.Input {
		t := s.Type(i)
		if !t.Ranked || len(t.Shape) != len(shape) {
			return []Type{{Elem: first.Elem}}
		}
		along = append(along, t.Shape[axis])
		for k, d := range t.Shape {
			if k != axis && d.Set {
				shape[k] = d
			}
		}
	}
	shape[axis] = ir.Dim{}
	total := int64(0)
	for i, d := range along {
		if !d.Set {
			break
		}
		total += d.Size
		if i == len(along)-1 {
			shape[axis] = ir.Fixed(total)
		}
	}
	return []Type{{Elem: first.Elem, Shape: shape, Ranked: true}}
}
