package gradient

import (
	"math"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestSlice(t *testing.T) {
	for _, k := range [][][]int64{
		{{1}, {3}, {0}}, {{0, 1}, {math.MaxInt64, 2}, {0, 1}}, {{-2}, {-1}, {-1}}, {{0}, {2}}, {{1}, {3}, {1}, {1}}, {{-100}, {100}, {0}}, {{1, 0}, {2, -1}, {1, 0}},
		{{0}, {4}, {0}, {2}}, {{1}, {4}, {0}, {2}}, {{0, 1}, {4, 3}, {0, 1}, {3, 2}}, {{0}, {100}, {0}, {100}}, {{1}, {3}, nil, {2}},
		{{-1}, {math.MinInt64 + 1}, {0}, {-1}}, {{3}, {0}, {0}, {-2}}, {{2, -1}, {0, -4}, {1, 0}, {-1, -2}}, {{100}, {-100}, {0}, {-3}}, {{0}, {math.MaxInt64}, {0}, {math.MaxInt64}},
	} {
		checkJacobian(t, jacobianCase{op: "Slice", shapes: [][]int64{{4, 3}}, ints: k})
	}
	limits := []*onnxpb.AttributeProto{ir.Ints("starts", 1), ir.Ints("ends", 4), ir.Ints("axes", 1)}
	checkJacobian(t,
		jacobianCase{op: "Slice", name: "batch", shapes: [][]int64{{2, 5}}, ints: [][]int64{{1}, {4}, {1}}, dims: [][]int64{{-1, 5}}, static: true},
		jacobianCase{op: "Slice", name: "batch, steps", shapes: [][]int64{{2, 5, 3, 4}}, ints: [][]int64{{1, 0}, {5, 3}, {1, 2}, {2, 2}}, dims: [][]int64{{-1, 5, 3, -1}}, static: true},
		jacobianCase{op: "Slice", name: "steps before free axes", shapes: [][]int64{{5, 2, 3}}, ints: [][]int64{{1}, {5}, {0}, {3}}, dims: [][]int64{{5, -1, -1}}, static: true},
		jacobianCase{op: "Slice", name: "opset 9", opset: 9, shapes: [][]int64{{2, 5}}, static: true, attrs: limits},
		jacobianCase{op: "Slice", name: "opset 12", opset: 12, shapes: [][]int64{{2, 5}}, ints: [][]int64{{-4}, {4}, {1}}, static: true},
	)
}

// Limits that the graph computes: the start and the end are the number of rows of x less 4 and less 1.
func TestSliceComputed(t *testing.T) {
	slice := func(axes []int64, steps ...int64) func(g *ir.Graph, args []string) {
		return func(g *ir.Graph, args []string) {
			rows := g.Add("Gather", []string{g.Add("Shape", args), "zero"})
			in := []string{args[0], g.Add("Sub", []string{rows, "four"}), g.Add("Sub", []string{rows, "one"}), "", ""}
			if axes != nil {
				must(t, g.Initializer(ir.Int64Tensor("axes", axes...)))
				in[3] = "axes"
			}
			if steps != nil {
				must(t, g.Initializer(ir.Int64Tensor("steps", steps...)))
				in[4] = "steps"
			}
			g.AddNamed("the_node", "Slice", in, []string{"y"})
		}
	}
	numbers := []*onnxpb.TensorProto{ir.Int64Tensor("zero", 0), ir.Int64Tensor("one", 1), ir.Int64Tensor("four", 4)}
	for _, rows := range []int64{3, 4, 6} { // a start that counts from the end, 0 and more
		checkJacobian(t,
			jacobianCase{op: "Slice", name: "computed", shapes: [][]int64{{rows, 2}}, tensors: numbers, build: slice([]int64{0})},
			jacobianCase{op: "Slice", name: "computed, no axes", shapes: [][]int64{{rows, 2}}, tensors: numbers, build: slice(nil)},
			jacobianCase{op: "Slice", name: "computed, steps", shapes: [][]int64{{rows, 2}}, tensors: numbers, build: slice([]int64{-2}, 2)},
		)
	}
}
