package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// indices is a constant of integers with any shape.
func indices(name string, shape []int64, values ...int64) *onnxpb.TensorProto {
	t := ir.Int64Tensor(name, values...)
	t.Dims = shape
	return t
}

// computed makes an integer constant a value that is known only when the graph runs.
func computed(g *ir.Graph, name string) string {
	return g.Add("Neg", []string{g.Add("Neg", []string{name})})
}

func TestGather(t *testing.T) {
	axis := func(a int64) []*onnxpb.AttributeProto { return []*onnxpb.AttributeProto{ir.Int("axis", a)} }
	lists := []*onnxpb.TensorProto{
		indices("one", nil, 2), indices("last", nil, -1), indices("range", []int64{2}, 1, 2), indices("all", []int64{4}, 0, 1, 2, 3), indices("swapped", []int64{4}, 3, 2, 0, -3),
		indices("some", []int64{2}, 3, 1), indices("twice", []int64{3}, 1, 1, -3), indices("often", []int64{6}, 0, 0, 2, 0, 0, 0), indices("grid", []int64{2, 3}, 0, 1, 1, 3, -1, 0),
	}
	for _, index := range lists {
		in := []string{"x0", index.Name}
		dynamic := func(attrs ...*onnxpb.AttributeProto) func(g *ir.Graph, args []string) {
			return func(g *ir.Graph, args []string) {
				g.AddNamed("the_node", "Gather", []string{args[0], computed(g, args[1])}, []string{"y"}, attrs...)
			}
		}
		tensors := []*onnxpb.TensorProto{index}
		checkJacobian(t,
			jacobianCase{op: "Gather", name: index.Name, shapes: [][]int64{{4, 3}}, args: in, tensors: tensors},
			jacobianCase{op: "Gather", name: index.Name, shapes: [][]int64{{2, 4, 2}}, args: in, tensors: tensors, attrs: axis(-2)},
			jacobianCase{op: "Gather", name: index.Name, shapes: [][]int64{{2, 3, 4}}, args: in, tensors: tensors, attrs: axis(2), dims: [][]int64{{-1, -1, 4}}, static: true},
			jacobianCase{op: "Gather", name: index.Name + " of a list", shapes: [][]int64{{4}}, args: in, tensors: tensors},
			jacobianCase{op: "Gather", name: index.Name + " opset 11", opset: 11, shapes: [][]int64{{4, 2, 2}}, args: in, tensors: tensors, static: true},
		)
		checkJacobian(t,
			jacobianCase{op: "Gather", name: index.Name + " computed", shapes: [][]int64{{2, 4, 3}}, args: in, tensors: tensors, build: dynamic(ir.Int("axis", 1))},
			jacobianCase{op: "Gather", name: index.Name + " computed, batch", shapes: [][]int64{{3, 4}}, args: in, tensors: tensors, build: dynamic(ir.Int("axis", -1)), dims: [][]int64{{-1, 4}}, static: true},
		)
	}
	checkJacobian(t, jacobianCase{op: "Gather", name: "unknown rank", shapes: [][]int64{{4, 2}}, tensors: lists, args: []string{"x0", "grid"}, build: func(g *ir.Graph, args []string) {
		free := unranked(t, g, args[0])
		g.AddNamed("the_node", "Gather", []string{free, args[1]}, []string{"y"})
	}})
}

func TestGatherElements(t *testing.T) {
	axis := func(a int64) []*onnxpb.AttributeProto { return []*onnxpb.AttributeProto{ir.Int("axis", a)} }
	lists := []*onnxpb.TensorProto{
		indices("once", []int64{2, 3}, 0, 2, 1, 1, 0, 2), indices("repeated", []int64{2, 3}, 2, -1, 1, 0, 0, 0), indices("fewer", []int64{1, 3}, 1, 1, 0),
		indices("columns", []int64{3, 3}, 0, 1, 0, 1, 0, 2, 2, 2, 1),
	}
	for _, index := range lists[:3] {
		in, tensors := []string{"x0", index.Name}, []*onnxpb.TensorProto{index}
		checkJacobian(t,
			jacobianCase{op: "GatherElements", name: index.Name, shapes: [][]int64{{2, 3}}, args: in, tensors: tensors, attrs: axis(1)},
			jacobianCase{op: "GatherElements", name: index.Name + " batch", shapes: [][]int64{{2, 3}}, args: in, tensors: tensors, attrs: axis(-1), dims: [][]int64{{-1, 3}}, static: true},
		)
	}
	checkJacobian(t,
		jacobianCase{op: "GatherElements", name: "columns", opset: 11, shapes: [][]int64{{3, 3}}, args: []string{"x0", "columns"}, tensors: lists, static: true},
		jacobianCase{op: "GatherElements", name: "computed", shapes: [][]int64{{3, 3}}, args: []string{"x0", "columns"}, tensors: lists, build: func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", "GatherElements", []string{args[0], computed(g, args[1])}, []string{"y"})
		}},
	)
}

func TestGatherND(t *testing.T) {
	lists := []*onnxpb.TensorProto{
		indices("elements", []int64{3, 2}, 0, 1, 1, -1, 0, 1), indices("rows", []int64{2, 2, 1}, 0, 1, -1, 1), indices("one", []int64{2}, 1, 2), indices("batch", []int64{2, 1}, 2, 0),
		indices("batches", []int64{2, 3, 1}, 0, 1, 1, 0, -1, 2),
	}
	for _, k := range []struct {
		index string
		batch int64
		shape []int64
	}{
		{"elements", 0, []int64{2, 3}}, {"elements", 0, []int64{2, 3, 2}}, {"rows", 0, []int64{2, 3}}, {"one", 0, []int64{2, 3, 2}}, {"batch", 1, []int64{2, 3}}, {"batch", 1, []int64{2, 3, 2}},
		{"batches", 1, []int64{2, 3, 2}}, {"batches", 2, []int64{2, 3, 3}},
	} {
		checkJacobian(t, jacobianCase{op: "GatherND", name: k.index, shapes: [][]int64{k.shape}, args: []string{"x0", k.index}, tensors: lists, attrs: []*onnxpb.AttributeProto{ir.Int("batch_dims", k.batch)}})
	}
}
