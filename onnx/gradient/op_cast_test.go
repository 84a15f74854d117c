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

func TestCastLike(t *testing.T) {
	like := func(g *ir.Graph, args []string) {
		g.AddNamed("the_node", "CastLike", []string{args[0], "type"}, []string{"h"})
		g.AddNamed("back", "Cast", []string{"h"}, []string{"y"}, ir.Int("to", int64(ir.Float64)))
	}
	double, single := ir.Float64Tensor("type", nil, []float64{1}), ir.Float32Tensor("type", nil, []float32{1})
	shapes := [][]int64{{2, 3}}
	checkJacobian(t,
		jacobianCase{op: "CastLike", name: "same type", shapes: shapes, build: like, tensors: []*onnxpb.TensorProto{double}, opset: 15},
		jacobianCase{op: "CastLike", name: "narrower", shapes: shapes, build: like, tensors: []*onnxpb.TensorProto{single}},
	)
}
