package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// gemmGradient: Y = alpha A' B' + beta C, where A' is A or its transpose. With G = alpha dY
//
//	A' gets G B'^T, B' gets A'^T G, C gets beta dY summed over the axes along which C was repeated.
func gemmGradient(c *Context) error {
	transA, transB := ir.AttrInt(c.Node, "transA", 0), ir.AttrInt(c.Node, "transB", 0)
	alpha, beta := ir.AttrFloat(c.Node, "alpha", 1), ir.AttrFloat(c.Node, "beta", 1)
	a, b := c.In(0), c.In(1)
	if c.Needs(0) {
		if transA == 0 {
			c.SetGrad(0, c.gemm(c.Grad(0), b, 0, 1-transB, alpha))
		} else {
			c.SetGrad(0, c.gemm(b, c.Grad(0), transB, 1, alpha))
		}
	}
	if c.Needs(1) {
		if transB == 0 {
			c.SetGrad(1, c.gemm(a, c.Grad(0), 1-transA, 0, alpha))
		} else {
			c.SetGrad(1, c.gemm(c.Grad(0), a, 1, transA, alpha))
		}
	}
	if c.Needs(2) {
		c.SetBroadcast(2, c.Scale(c.Grad(0), float64(beta)))
	}
	return nil
}

// gemm multiplies two matrices, transposed where asked. Before operator set 11, Gemm had no form without C.
func (c *Context) gemm(a, b string, transA, transB int64, alpha float32) string {
	if c.opset >= 11 {
		return c.OpWith("Gemm", []string{a, b}, ir.Int("transA", transA), ir.Int("transB", transB), ir.Float("alpha", alpha))
	}
	if transA != 0 {
		a = c.Transpose(a, 1, 0)
	}
	if transB != 0 {
		b = c.Transpose(b, 1, 0)
	}
	return c.Scale(c.Op("MatMul", a, b), float64(alpha))
}

func inferGemm(s *Site) []Type {
	a, b := s.Type(0), s.Type(1)
	if len(a.Shape) != 2 || len(b.Shape) != 2 {
		return []Type{{Elem: a.Elem, Shape: make([]ir.Dim, 2), Ranked: true}}
	}
	rows, cols := a.Shape[0], b.Shape[1]
	if ir.AttrInt(s.Node, "transA", 0) != 0 {
		rows = a.Shape[1]
	}
	if ir.AttrInt(s.Node, "transB", 0) != 0 {
		cols = b.Shape[0]
	}
	return []Type{{Elem: a.Elem, Shape: []ir.Dim{rows, cols}, Ranked: true}}
}
