package gradient

import (
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
	axis := ir.AttrInt(c.Node, "axis", 1)
	for i := range c.Node.Input {
		if at, ok := c.Type(i).Axis(axis); !ok || !c.Type(i).Shape[at].Set {
			c.unconcatDynamic(axis)
			return nil
		}
	}
	start := int64(0)
	for i := range c.Node.Input {
		at, _ := c.Type(i).Axis(axis)
		end := start + c.Type(i).Shape[at].Size
		if c.Needs(i) {
			c.SetGrad(i, c.Slice(c.Grad(0), []int64{start}, []int64{end}, []int64{int64(at)}))
		}
		start = end
	}
	return nil
}

// unconcatDynamic splits dy by the sizes that the inputs turn out to have.
func (c *Context) unconcatDynamic(axis int64) {
	c.wantOpset(13, "splitting into sizes that are known only when the graph runs")
	if len(c.Node.Input) == 1 {
		c.SetGrad(0, c.Grad(0))
		return
	}
	sizes := make([]string, len(c.Node.Input))
	for i, in := range c.Node.Input {
		sizes[i] = c.sizeOf(in, axis)
	}
	split := c.OpWith("Concat", sizes, ir.Int("axis", 0))
	for i, part := range c.outputs("Split", []string{c.Grad(0), split}, len(sizes), ir.Int("axis", axis)) {
		c.SetGrad(i, part)
	}
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
