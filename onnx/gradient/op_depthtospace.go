package gradient

import (
	"errors"

	"github.com/jempipe/jempipe/onnx/ir"
)

// depthToSpaceGradient: blocks of channels become blocks of pixels, so x gets the blocks of pixels of dy as channels.
// The two modes differ in the order of channels: in DCR the place in the block counts before the channel of y, as
// SpaceToDepth has it, in CRD after it.
func depthToSpaceGradient(c *Context) error {
	size := ir.AttrInt(c.Node, "blocksize", 1)
	dx := c.OpWith("SpaceToDepth", []string{c.Grad(0)}, ir.Int("blocksize", size))
	if ir.AttrString(c.Node, "mode", "DCR") == "DCR" {
		c.SetGrad(0, dx)
		return nil
	}
	x := c.Type(0)
	if len(x.Shape) != 4 || !x.Shape[1].Set || size < 1 {
		return errors.New("the number of channels of its input is not known: run ONNX shape inference on the model first")
	}
	block := size * size
	blocks := c.Op("Reshape", dx, c.List(0, block, x.Shape[1].Size/block, -1))
	c.SetGrad(0, c.ReshapeLike(c.Transpose(blocks, 0, 2, 1, 3), c.In(0)))
	return nil
}

// spaceToDepthGradient: the inverse, DepthToSpace in mode DCR, takes dy back.
func spaceToDepthGradient(c *Context) error {
	c.SetGrad(0, c.OpWith("DepthToSpace", []string{c.Grad(0)}, ir.Int("blocksize", ir.AttrInt(c.Node, "blocksize", 1))))
	return nil
}

func inferDepthToSpace(s *Site) []Type {
	b := ir.AttrInt(s.Node, "blocksize", 1)
	return s.inferBlocks(func(n int64) int64 { return n / (b * b) }, func(n int64) int64 { return n * b })
}

func inferSpaceToDepth(s *Site) []Type {
	b := ir.AttrInt(s.Node, "blocksize", 1)
	return s.inferBlocks(func(n int64) int64 { return n * b * b }, func(n int64) int64 { return n / b })
}

func (s *Site) inferBlocks(channels, pixels func(int64) int64) []Type {
	x := s.Type(0)
	out := Type{Elem: x.Elem, Shape: make([]ir.Dim, 4), Ranked: true}
	if b := ir.AttrInt(s.Node, "blocksize", 1); len(x.Shape) != 4 || b < 1 || b > 1<<20 {
		return []Type{out}
	}
	out.Shape[0] = x.Shape[0]
	for i, d := range x.Shape[1:] {
		if !d.Set {
			continue
		}
		if i == 0 {
			out.Shape[1] = ir.Fixed(channels(d.Size))
		} else {
			out.Shape[i+1] = ir.Fixed(pixels(d.Size))
		}
	}
	return []Type{out}
}
