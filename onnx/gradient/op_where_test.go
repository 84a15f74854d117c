package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// chosen puts a Where with a constant condition, or one computed from the first input, behind the inputs.
func chosen(constant bool) func(g *ir.Graph, args []string) {
	return func(g *ir.Graph, args []string) {
		condition := "condition"
		if !constant {
			condition = g.Add("Greater", []string{args[0], g.Add("Neg", []string{args[0]})})
		}
		g.AddNamed("the_node", "Where", []string{condition, args[0], args[1]}, []string{"y"})
	}
}

func TestWhere(t *testing.T) {
	condition := boolTensor("condition", []int64{2, 3}, 1, 0, 0, 1, 0, 1)
	row := boolTensor("condition", []int64{3}, 1, 0, 1)
	for _, p := range pairings[:5] {
		checkJacobian(t, jacobianCase{op: "Where", shapes: p, build: chosen(false)})
	}
	for _, p := range [][][]int64{{{2, 3}, {2, 3}}, {{2, 3}, {}}, {{3}, {2, 1}}, {{1, 3}, {1}}} {
		checkJacobian(t, jacobianCase{op: "Where", name: "constant", shapes: p, build: chosen(true), tensors: []*onnxpb.TensorProto{condition}})
	}
	both := [][]int64{{2, 3}, {2, 3}}
	checkJacobian(t,
		jacobianCase{op: "Where", name: "row", shapes: both, build: chosen(true), tensors: []*onnxpb.TensorProto{row}},
		jacobianCase{op: "Where", name: "first", shapes: both, build: chosen(true), tensors: []*onnxpb.TensorProto{row}, wrt: []int{0}},
		jacobianCase{op: "Where", name: "second", shapes: both, build: chosen(true), tensors: []*onnxpb.TensorProto{row}, wrt: []int{1}, consts: true, single: true},
		jacobianCase{op: "Where", name: "batch", shapes: both, dims: [][]int64{{-1, 3}, {-1, 3}}, build: chosen(false)},
		jacobianCase{op: "Where", name: "opset 9", shapes: both, build: chosen(true), tensors: []*onnxpb.TensorProto{row}, opset: 9, static: true},
	)
}

// A model that keeps the infinite slope of a root at 0 out of its result keeps it out of the gradient too.
func TestWhereKeepsInfinityOut(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(3)))
		must(t, g.Initializer(ir.Float32Tensor("zero", []int64{}, []float32{0})))
		square := g.Add("Mul", []string{"x", "x"})
		kept := g.Add("Where", []string{g.Add("Greater", []string{"x", "zero"}), square, "zero"})
		g.AddNamed("y", "Sqrt", []string{kept}, []string{"y"})
	})
	equal(t, gradients(t, m, "y", []string{"x"}, []float32{2, -1, 3})[0], 1, 0, 1)
}
