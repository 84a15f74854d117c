package gradient

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func einsumCase(equation string, shapes ...[]int64) jacobianCase {
	return jacobianCase{op: "Einsum", name: equation + " ", shapes: shapes, attrs: []*onnxpb.AttributeProto{ir.String("equation", equation)}}
}

func TestEinsum(t *testing.T) {
	for _, k := range []jacobianCase{
		// One operand.
		einsumCase("ij->ij", []int64{2, 3}),
		einsumCase("ij->ji", []int64{2, 3}),
		einsumCase("ij", []int64{2, 3}),
		einsumCase("ba", []int64{2, 3}),
		einsumCase("ij->j", []int64{2, 3}),
		einsumCase("ij->", []int64{2, 3}),
		einsumCase("ii->i", []int64{3, 3}),
		einsumCase("ii->", []int64{3, 3}),
		einsumCase("ii", []int64{3, 3}),
		einsumCase("iji->j", []int64{2, 3, 2}),
		einsumCase("iii->i", []int64{2, 2, 2}),
		einsumCase("iijj->ji", []int64{2, 2, 3, 3}),
		einsumCase("...->...", []int64{2, 3}),
		einsumCase("...ij->...ji", []int64{2, 2, 3}),
		einsumCase("...ij->...j", []int64{2, 2, 3}),
		einsumCase("...ii->...i", []int64{2, 2, 2}),
		einsumCase("...ji", []int64{2, 2, 3}),
		// Two.
		einsumCase("ij,jk->ik", []int64{2, 3}, []int64{3, 4}),
		einsumCase("ij,jk", []int64{2, 3}, []int64{3, 4}),
		einsumCase(" i j , j k -> k i ", []int64{2, 3}, []int64{3, 4}),
		einsumCase("ji,kj->ik", []int64{3, 2}, []int64{4, 3}),
		einsumCase("i,i", []int64{3}, []int64{3}),
		einsumCase("i,j->ij", []int64{2}, []int64{3}),
		einsumCase("i,j->ji", []int64{2}, []int64{3}),
		einsumCase("ij,->ij", []int64{2, 3}, []int64{}),
		einsumCase("ij,jk->i", []int64{2, 3}, []int64{3, 4}),
		einsumCase("ij,ij->ij", []int64{2, 3}, []int64{2, 3}),
		einsumCase("ij,ij->i", []int64{2, 3}, []int64{2, 3}),
		einsumCase("ij,kl->", []int64{2, 3}, []int64{2, 2}),
		einsumCase("ij,i->ij", []int64{2, 3}, []int64{2}),
		einsumCase("ii,ij->j", []int64{2, 2}, []int64{2, 3}),
		einsumCase("bij,bjk->bik", []int64{2, 2, 3}, []int64{2, 3, 2}),
		einsumCase("bij,bkj->bik", []int64{2, 2, 3}, []int64{2, 2, 3}),
		einsumCase("bij,bj->bi", []int64{2, 2, 3}, []int64{2, 3}),
		einsumCase("bqhd,bkhd->bhqk", []int64{2, 2, 2, 3}, []int64{2, 3, 2, 3}),
		einsumCase("bhqk,bkhd->bqhd", []int64{2, 2, 2, 3}, []int64{2, 3, 2, 3}),
		einsumCase("bsd,dhe->bshe", []int64{2, 3, 2}, []int64{2, 2, 3}),
		einsumCase("bshe,hed->bsd", []int64{2, 2, 2, 3}, []int64{2, 3, 2}),
		einsumCase("Bij,Bjk->ikB", []int64{2, 2, 3}, []int64{2, 3, 2}),
		einsumCase("...ij,...jk->...ik", []int64{2, 2, 3}, []int64{2, 3, 2}),
		einsumCase("...ij,...jk->...ik", []int64{2, 1, 2, 3}, []int64{1, 3, 3, 2}),
		einsumCase("...ij,...jk->...ik", []int64{1, 2, 3}, []int64{2, 3, 2}),
		einsumCase("...ij,jk->...ik", []int64{2, 2, 3}, []int64{3, 2}),
		einsumCase("...ij,jk", []int64{2, 2, 3}, []int64{3, 2}),
		einsumCase("...i,...i->...", []int64{2, 1, 3}, []int64{1, 2, 3}),
		einsumCase("i...,...i->...i", []int64{3, 1, 2}, []int64{2, 2, 3}),
		einsumCase("...ij,...j->...", []int64{2, 1, 3, 2}, []int64{1, 3, 2}),
		// Three.
		einsumCase("i,j,k->ijk", []int64{2}, []int64{3}, []int64{2}),
		einsumCase("ij,jk,kl->il", []int64{2, 3}, []int64{3, 2}, []int64{2, 2}),
		einsumCase("i,ij,j->", []int64{2}, []int64{2, 3}, []int64{3}),
		einsumCase("bn,anm,bm->ba", []int64{2, 3}, []int64{2, 3, 2}, []int64{2, 2}),
		einsumCase("...i,ij,...j->...", []int64{2, 2}, []int64{2, 3}, []int64{2, 3}),
		einsumCase("...i,...i,...i->...", []int64{1, 2, 3}, []int64{2, 1, 3}, []int64{1, 1, 3}),
	} {
		checkJacobian(t, k)
	}
}

func TestEinsumShapes(t *testing.T) {
	batch := einsumCase("bsd,dhe->bshe", []int64{2, 3, 2}, []int64{2, 2, 3})
	batch.dims = [][]int64{{-1, 3, 2}, {2, 2, 3}}
	heads := einsumCase("bqhd,bkhd->bhqk", []int64{2, 2, 2, 3}, []int64{2, 3, 2, 3})
	heads.dims = [][]int64{{-1, 2, 2, 3}, {-1, 3, 2, 3}}
	old := einsumCase("bij,bjk->bik", []int64{2, 2, 3}, []int64{2, 3, 2})
	old.opset, old.static = 12, true
	diagonal := einsumCase("bii->b", []int64{2, 3, 3})
	diagonal.dims = [][]int64{{-1, 3, 3}}
	oldDiagonal := einsumCase("bii->b", []int64{2, 3, 3})
	oldDiagonal.opset, oldDiagonal.static = 12, true
	checkJacobian(t, batch, heads, old, diagonal, oldDiagonal)
	for i, k := range []jacobianCase{
		einsumCase("ij,jk->ki", []int64{2, 3}, []int64{3, 4}),
		einsumCase("...ij,...jk->...ik", []int64{2, 1, 2, 3}, []int64{1, 3, 3, 2}),
		einsumCase("...ij,jk->...ik", []int64{2, 2, 2, 3}, []int64{3, 2}),
		einsumCase("...iij->...i", []int64{2, 2, 2, 3}),
		einsumCase("...i->...", []int64{2, 3}),
	} {
		k.name = fmt.Sprintf("rank unknown %d", i)
		k.build = k.unranked
		checkJacobian(t, k)
	}
}

// Products of two matrices are no Einsum.
func TestEinsumAsMatMul(t *testing.T) {
	for _, equation := range []string{"ij,jk->ik", "bij,bjk->bik", "bqhd,bkhd->bhqk", "bij,bj->bi", "ij,i->ij", "bsd,dhe->bshe", "...ij,...kj->...ik"} {
		operands := strings.Split(strings.Split(equation, "->")[0], ",")
		m := build(t, func(g *ir.Graph) {
			var names []string
			for _, term := range operands {
				names = append(names, g.Unique("x"))
				must(t, g.Input(names[len(names)-1], ir.Float32, ir.FixedDims([]int64{2, 2, 2, 2, 2, 2}[:len(term)]...)...))
			}
			g.AddNamed("the_node", "Einsum", names, []string{"y"}, ir.String("equation", equation))
		})
		_, err := Gradient(m, "y", []string{"x", "x_1"})
		must(t, err)
		for _, n := range m.Graph.Node[1:] {
			if n.OpType == "Einsum" {
				t.Errorf("%s: the gradient has an Einsum %s", equation, ir.AttrString(n, "equation", ""))
			}
		}
	}
}

func TestEinsumErrors(t *testing.T) {
	for equation, want := range map[string]string{
		"ij,jk->ik": "has 2 operands, the node 1", "i.j->ij": "points that are no ellipsis", "i1->i": `the term "i1"`, "......->...": `the term ".."`,
		"...i->i": "an ellipsis, which its output leaves out", "ij->ik": `"k"`, "ij->ii": `"i" twice`,
	} {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Fixed(2), ir.Fixed(2)))
			g.AddNamed("the_node", "Einsum", []string{"x"}, []string{"y"}, ir.String("equation", equation))
		})
		if _, err := Gradient(m, "y", []string{"x"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", equation, err)
		}
	}
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(2), ir.Fixed(2)))
		free := unranked(t, g, "x")
		g.AddNamed("the_node", "Einsum", []string{free}, []string{"y"}, ir.String("equation", "i...->..."))
	})
	if _, err := Gradient(m, "y", []string{"x"}); err == nil || !strings.Contains(err.Error(), "letters in front of an ellipsis") {
		t.Errorf("error %v", err)
	}
}
