package gradient

import (
	"errors"
	"math"

	"github.com/jempipe/jempipe/onnx/ir"
)

// rotaryEmbeddingGradient: pairs (a, b) of elements of x are rotated by angles given by their cosines and sines,
//
//	(a cos - b sin, a sin + b cos),
//
// so x gets dy rotated back. Where cosines or sines need a gradient, the operations are differentiated one by one.
func rotaryEmbeddingGradient(c *Context) error {
	if c.Needs(1) || c.Needs(2) {
		return c.composed(func() []string { return []string{c.rotated()} })
	}
	in := []string{c.Grad(0), c.In(1), c.Op("Neg", c.In(2))}
	if positions := c.In(3); positions != "" {
		in = append(in, positions)
	}
	c.SetGrad(0, c.OpWith("RotaryEmbedding", in, c.Node.Attribute...))
	return nil
}

// rotated computes the node's output. Its input has the shape (batch, heads, tokens, size), or (batch, tokens, heads
// times size).
func (c *Context) rotated() string {
	flat := c.Rank(c.In(0)) == 3
	if !flat {
		return c.rotatedHeads(c.In(0), 1)
	}
	heads := ir.AttrInt(c.Node, "num_heads", 0)
	if heads <= 0 {
		c.fail(errors.New("its attribute num_heads is missing"))
		return ""
	}
	return c.Op("Reshape", c.rotatedHeads(c.Op("Reshape", c.In(0), c.List(0, 0, heads, -1)), 2), c.List(0, 0, -1))
}

// rotatedHeads does so for a value with an axis of heads, the given one, before that of size, which is axis 3.
func (c *Context) rotatedHeads(x string, heads int64) string {
	angle := func(i int) string {
		v := c.In(i)
		if c.In(3) != "" {
			v = c.Op("Gather", v, c.In(3))
		}
		return c.Unsqueeze(v, []int64{heads})
	}
	size := ir.AttrInt(c.Node, "rotary_embedding_dim", 0)
	if size == 0 {
		return c.rotatedPairs(x, angle(1), angle(2))
	}
	turned := c.Slice(x, []int64{0}, []int64{size}, []int64{3})
	rest := c.Slice(x, []int64{size}, []int64{math.MaxInt64}, []int64{3})
	return c.OpWith("Concat", []string{c.rotatedPairs(turned, angle(1), angle(2)), rest}, ir.Int("axis", 3))
}

// rotatedPairs turns all of a value. Neighbours are pairs, or elements of the two halves.
func (c *Context) rotatedPairs(x, cos, sin string) string {
	interleaved := ir.AttrInt(c.Node, "interleaved", 0) != 0
	var a, b string
	if interleaved {
		every := func(from int64) string {
			return c.Op("Slice", x, c.List(from), c.List(math.MaxInt64), c.List(3), c.List(2))
		}
		a, b = every(0), every(1)
	} else {
		halves := c.outputs("Split", []string{x}, 2, ir.Int("axis", 3), ir.Int("num_outputs", 2))
		a, b = halves[0], halves[1]
	}
	first := c.Op("Sub", c.Op("Mul", a, cos), c.Op("Mul", b, sin))
	second := c.Op("Add", c.Op("Mul", a, sin), c.Op("Mul", b, cos))
	if !interleaved {
		return c.OpWith("Concat", []string{first, second}, ir.Int("axis", 3))
	}
	pairs := c.OpWith("Concat", []string{c.Unsqueeze(first, []int64{4}), c.Unsqueeze(second, []int64{4})}, ir.Int("axis", 4))
	return c.Op("Reshape", pairs, c.List(0, 0, 0, -1))
}
