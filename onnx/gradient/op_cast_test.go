package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestCast(t *testing.T) {
	to := func(elem int32) []*onnxpb.AttributeProto { return []*onnxpb.AttributeProto{ir.Int("to", int64(elem))} }
	checkJacobian(t,
		jacobianCase{op: "Cast", name: "same type", shapes: [][]int64{{2, 3}}, attrs: to(ir.Float32), single: true},
		jacobianCase{op: "Cast", name: "double", shapes: [][]int64{{2, 3}}, attrs: to(ir.Float64)},
	)
}

// A conversion within a path changes the type of the gradient back.
func TestCastBetweenTypes(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
		wide := g.Add("Cast", []string{"x"}, ir.Int("to", int64(ir.Float64)))
		square := g.Add("Mul", []string{wide, wide})
		g.AddNamed("y", "Cast", []string{square}, []string{"y"}, ir.Int("to", int64(ir.Float32)))
	})
	equal(t, gradients(t, m, "y", []string{"x"}, []float32{3, -4})[0], 6, -8)
}
