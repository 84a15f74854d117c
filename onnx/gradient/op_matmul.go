package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// matMulGradient: Y = A B over the last two axes, the axes before them broadcast, so A gets dY B^T and B gets A^T dY,
// summed over broadcast axes. A vector A counts as a row and a vector B as a column.
func matMulGradient(c *Context) error {
	if c.Type(1).Ranked && len(c.Type(1).Shape) == 2 {
		if t := c.Type(0); !t.Ranked || len(t.Shape) > 2 {
			c.matMulRows()
			return nil
		}
	}
	rankA, rankB := c.Rank(c.In(0)), c.Rank(c.In(1))
	if c.err != nil {
		return c.err
	}
	a, b, dy := c.In(0), c.In(1), c.Grad(0)
	if rankB == 1 {
		b = c.Unsqueeze(b, []int64{1})
		dy = c.Unsqueeze(dy, []int64{int64(max(rankA, 2) - 1 - vector(rankA))})
	}
	if rankA == 1 {
		a = c.Unsqueeze(a, []int64{0})
		dy = c.Unsqueeze(dy, []int64{int64(max(rankB, 2) - 2)})
	}
	if c.Needs(0) {
		da := c.reduceTo(c.product(dy, b, false, true), a)
		if rankA == 1 {
			da = c.Squeeze(da, []int64{0})
		}
		c.SetGrad(0, da)
	}
	if c.Needs(1) {
		db := c.reduceTo(c.product(a, dy, true, false), b)
		if rankB == 1 {
			db = c.Squeeze(db, []int64{1})
		}
		c.SetGrad(1, db)
	}
	return nil
}

// matMulRows is the gradient for one matrix B and an A of any other rank, known or not: A's vectors along the last axis
// are rows that B is applied to, so the gradient of B is one product over all of them.
func (c *Context) matMulRows() {
	if c.Needs(0) {
		c.SetGrad(0, c.Op("MatMul", c.Grad(0), c.Transpose(c.In(1), 1, 0)))
	}
	if c.Needs(1) {
		c.SetGrad(1, c.gemm(c.rows(c.In(0), c.In(1), 0), c.rows(c.Grad(0), c.In(1), 1), 1, 0, 1))
	}
}

// rows makes a matrix of a value whose last axis has the size of an axis of b.
func (c *Context) rows(v, b string, axis int64) string {
	if d := c.types[b].Shape[axis]; d.Set && d.Size > 0 {
		return c.Op("Reshape", v, c.List(-1, d.Size))
	}
	size := c.Slice(c.Op("Shape", b), []int64{axis}, []int64{axis + 1}, []int64{0})
	out := c.Op("Reshape", v, c.OpWith("Concat", []string{c.List(-1), size}, ir.Int("axis", 0)))
	c.set(out, Type{Elem: c.types[v].Elem, Shape: make([]ir.Dim, 2), Ranked: true})
	return out
}

func vector(rank int) int {
	if rank == 1 {
		return 1
	}
	return 0
}

// product multiplies over the last two axes; for matrices without a separate transposition.
func (c *Context) product(a, b string, transA, transB bool) string {
	if len(c.types[a].Shape) == 2 && len(c.types[b].Shape) == 2 {
		return c.gemm(a, b, bit(transA), bit(transB), 1)
	}
	if transA {
		a = c.SwapLast(a)
	}
	if transB {
		b = c.SwapLast(b)
	}
	return c.Op("MatMul", a, b)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func inferMatMul(s *Site) []Type {
	a, b := s.Type(0), s.Type(1)
	if !a.Ranked || !b.Ranked || len(a.Shape) == 0 || len(b.Shape) == 0 {
		return []Type{{Elem: a.Elem}}
	}
	// The parts before the last two axes are broadcast; a vector has none and loses its axis.
	head := func(t Type) Type { return Type{Shape: t.Shape[:max(len(t.Shape)-2, 0)], Ranked: true} }
	shape := slices.Clone(broadcast(head(a), head(b)).Shape)
	if n := len(a.Shape); n > 1 {
		shape = append(shape, a.Shape[n-2])
	}
	if n := len(b.Shape); n > 1 {
		shape = append(shape, b.Shape[n-1])
	}
	return []Type{{Elem: a.Elem, Shape: append([]ir.Dim{}, shape...), Ranked: true}}
}
