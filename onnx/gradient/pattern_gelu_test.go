package gradient

import (
	"math"
	"slices"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

// spelledGelu builds y = x (1 + erf(x / sqrt 2)) / 2 with its products in one of three orders.
func spelledGelu(t *testing.T, order int) func(g *ir.Graph, args []string) {
	number := func(g *ir.Graph, name string, v float32) string {
		must(t, g.Initializer(ir.Float32Tensor(name, nil, []float32{v})))
		return name
	}
	return func(g *ir.Graph, args []string) {
		x := args[0]
		u := ""
		if order == 0 {
			u = g.Add("Div", []string{x, number(g, "root", math.Sqrt2)})
		} else {
			u = g.Add("Mul", []string{number(g, "root", 1/math.Sqrt2), x})
		}
		g.AddNamed("erf", "Erf", []string{u}, []string{"erf"})
		a := g.Add("Add", []string{"erf", number(g, "one", 1)})
		half := number(g, "half", 0.5)
		switch order {
		case 0:
			g.AddNamed("the_node", "Mul", []string{g.Add("Mul", []string{x, a}), half}, []string{"y"})
		case 1:
			g.AddNamed("the_node", "Mul", []string{g.Add("Mul", []string{half, x}), a}, []string{"y"})
		default:
			g.AddNamed("the_node", "Mul", []string{x, g.Add("Mul", []string{a, half})}, []string{"y"})
		}
	}
}

func TestSpelledGelu(t *testing.T) {
	for order := range 3 {
		checkJacobian(t,
			jacobianCase{op: "Mul", name: "gelu", shapes: [][]int64{{2, 3}}, build: spelledGelu(t, order), single: true},
			jacobianCase{op: "Mul", name: "gelu in a batch", shapes: [][]int64{{2, 3}}, dims: [][]int64{{-1, 3}}, build: spelledGelu(t, order), single: true},
		)
	}
}

// The values between x and y are used by the gradient only where their own gradients are wanted.
func TestSpelledGeluIsTakenAsOne(t *testing.T) {
	for _, wrt := range [][]string{{"x"}, {"x", "erf"}, {"x", "half"}} {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Fixed(3)))
			spelledGelu(t, 0)(g, []string{"x"})
		})
		nodes := len(m.Graph.Node)
		got := gradients(t, m, "y", wrt, []float32{-1, 0, 2})
		want := []float32{}
		for _, x := range []float64{-1, 0, 2} {
			want = append(want, float32(0.5*(1+math.Erf(x/math.Sqrt2))+x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)))
		}
		equal(t, got[0], want...)
		between := map[string]bool{}
		for _, n := range m.Graph.Node[:nodes-1] {
			between[n.Output[0]] = true
		}
		used := false
		for _, n := range m.Graph.Node[nodes:] {
			used = used || slices.ContainsFunc(n.Input, func(in string) bool { return between[in] })
		}
		if used != (len(wrt) > 1) {
			t.Errorf("with respect to %v: values between are used: %v", wrt, used)
		}
	}
}
