package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestPad(t *testing.T) {
	for _, pads := range [][]int64{{0, 1, 0, 2}, {1, 0, 0, 0}, {2, 1, 1, 3}, {0, 0, 0, 0}, {-1, 0, 0, 0}, {0, -1, 2, 1}, {0, 2, -1, -2}} {
		checkJacobian(t, jacobianCase{op: "Pad", shapes: [][]int64{{3, 4}}, ints: [][]int64{pads}})
	}
	checkJacobian(t,
		jacobianCase{op: "Pad", name: "opset 10", opset: 10, shapes: [][]int64{{2, 3}}, attrs: []*onnxpb.AttributeProto{ir.Ints("pads", 1, 0, 0, 2), ir.Float("value", 3)}, static: true},
		jacobianCase{op: "Pad", name: "axes", opset: 18, shapes: [][]int64{{2, 3, 2}}, ints: [][]int64{{1, 2, 0, 1}, {-1, 0}}, args: []string{"x0", "ints0", "", "ints1"}},
		jacobianCase{op: "Pad", name: "batch", shapes: [][]int64{{2, 3}}, ints: [][]int64{{0, 2, 0, 1}}, dims: [][]int64{{-1, 3}}, static: true},
		jacobianCase{op: "Pad", name: "value", shapes: [][]int64{{2, 3}, {}}, ints: [][]int64{{1, 2, 0, 1}}, args: []string{"x0", "ints0", "x1"}},
		jacobianCase{op: "Pad", name: "value in a list", shapes: [][]int64{{2, 3}, {1}}, ints: [][]int64{{1, 2, 0, -1}}, args: []string{"x0", "ints0", "x1"}},
		jacobianCase{op: "Pad", name: "only the value", shapes: [][]int64{{2, 3}, {}}, ints: [][]int64{{1, 2, 0, 1}}, args: []string{"x0", "ints0", "x1"}, wrt: []int{1}},
	)
}

// computedPads reads its pads from a value that is known only when the graph runs.
func computedPads(attrs ...*onnxpb.AttributeProto) func(g *ir.Graph, args []string) {
	return func(g *ir.Graph, args []string) {
		pads := g.Add("Sub", []string{args[1], args[2]})
		g.AddNamed("the_node", "Pad", append([]string{args[0], pads}, args[3:]...), []string{"y"}, attrs...)
	}
}

func TestPadComputed(t *testing.T) {
	pads, none := []int64{0, 2, 1, 1}, []int64{0, 0, 0, 0}
	for _, mode := range []string{"constant", "reflect", "edge"} {
		checkJacobian(t, jacobianCase{op: "Pad", name: mode + " computed", shapes: [][]int64{{3, 4}}, ints: [][]int64{pads, none}, build: computedPads(ir.String("mode", mode))})
	}
	checkJacobian(t,
		jacobianCase{op: "Pad", name: "computed crop", shapes: [][]int64{{3, 4}}, ints: [][]int64{none, pads}, build: computedPads()},
		jacobianCase{op: "Pad", name: "computed, axes", opset: 18, shapes: [][]int64{{3, 4}}, ints: [][]int64{{2, 1}, {0, 0}, {1}},
			args: []string{"x0", "ints0", "ints1", "", "ints2"}, build: computedPads()},
	)
}

func TestPadModes(t *testing.T) {
	for _, mode := range []string{"reflect", "edge", "wrap"} {
		attrs := []*onnxpb.AttributeProto{ir.String("mode", mode)}
		opset := int64(17)
		if mode == "wrap" {
			opset = 19
		}
		for _, pads := range [][]int64{{0, 1, 0, 2}, {1, 0, 0, 0}, {2, 1, 1, 3}, {0, 0, 2, 1}, {0, 3, 0, 3}} {
			checkJacobian(t, jacobianCase{op: "Pad", name: fmt.Sprint(mode, pads), opset: opset, shapes: [][]int64{{3, 4}}, ints: [][]int64{pads}, attrs: attrs})
		}
		checkJacobian(t,
			jacobianCase{op: "Pad", name: mode + " batch", opset: opset, shapes: [][]int64{{2, 3, 4}}, dims: [][]int64{{-1, -1, 4}}, ints: [][]int64{{0, 0, 2, 0, 0, 1}}, attrs: attrs, static: true},
			jacobianCase{op: "Pad", name: mode + " image", opset: opset, shapes: [][]int64{{1, 1, 3, 3}}, ints: [][]int64{{0, 0, 1, 1, 0, 0, 1, 1}}, attrs: attrs},
			jacobianCase{op: "Pad", name: mode + " crop", opset: opset, shapes: [][]int64{{3, 4}}, ints: [][]int64{{-1, 0, 0, -2}}, attrs: attrs},
		)
	}
	edge := []*onnxpb.AttributeProto{ir.String("mode", "edge")}
	checkJacobian(t,
		jacobianCase{op: "Pad", name: "edge of one", shapes: [][]int64{{2, 1}}, ints: [][]int64{{0, 2, 0, 3}}, attrs: edge},
		jacobianCase{op: "Pad", name: "edge of two", shapes: [][]int64{{2, 2}}, ints: [][]int64{{0, 2, 0, 3}}, attrs: edge},
		jacobianCase{op: "Pad", name: "reflect opset 10", opset: 10, shapes: [][]int64{{2, 3}}, attrs: []*onnxpb.AttributeProto{ir.Ints("pads", 0, 2, 0, 1), ir.String("mode", "reflect")}, static: true},
	)
}
