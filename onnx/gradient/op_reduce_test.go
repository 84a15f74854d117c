package gradient

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// checkReduction tries axes in every form, with and without keepdims. draw gives inputs at which the operator is smooth.
func checkReduction(t *testing.T, op string, draw func(*rand.Rand) float64) {
	t.Helper()
	check := func(k jacobianCase) {
		t.Helper()
		k.op, k.draw = op, draw
		if k.shapes == nil {
			k.shapes = [][]int64{{2, 3}}
		}
		checkJacobian(t, k)
	}
	for _, axes := range [][]int64{nil, {1}, {-1, 0}, {0, 1, 2}} {
		for _, keep := range []int64{0, 1} {
			k := jacobianCase{name: fmt.Sprintf("axes %v keep %d ", axes, keep), shapes: [][]int64{{2, 3, 2}}, attrs: []*onnxpb.AttributeProto{ir.Int("keepdims", keep)}}
			k.axes(op, axes)
			check(k)
		}
	}
	noop := ir.Int("noop_with_empty_axes", 1)
	check(jacobianCase{name: "batch", dims: [][]int64{{-1, 3}}})
	check(jacobianCase{name: "opset 18", opset: 18, ints: [][]int64{{1}}})
	check(jacobianCase{name: "opset 18 none", opset: 18, ints: [][]int64{{}}, attrs: []*onnxpb.AttributeProto{noop}})
	check(jacobianCase{name: "opset 18 empty", opset: 18, ints: [][]int64{{}}})
	check(jacobianCase{name: "opset 18 none given", opset: 18, attrs: []*onnxpb.AttributeProto{noop}})
	check(jacobianCase{name: "opset 11", opset: 11, attrs: []*onnxpb.AttributeProto{ir.Ints("axes", -1), ir.Int("keepdims", 0)}, static: true})
	check(jacobianCase{name: "opset 8", opset: 8, attrs: []*onnxpb.AttributeProto{ir.Ints("axes", 1), ir.Int("keepdims", 0)}, static: true})
	for _, keep := range []int64{0, 1} {
		keepdims := ir.Int("keepdims", keep)
		for _, axes := range [][]int64{nil, {-1, 0}} {
			k := jacobianCase{name: fmt.Sprintf("rank unknown axes %v keep %d ", axes, keep), attrs: []*onnxpb.AttributeProto{keepdims}}
			k.axes(op, axes)
			k.op = op
			k.build = k.unranked
			check(k)
			k = jacobianCase{name: fmt.Sprintf("axes computed %v keep %d ", axes, keep), opset: 18, ints: [][]int64{axes}, attrs: []*onnxpb.AttributeProto{keepdims}}
			if axes == nil {
				k.name, k.ints, k.attrs = k.name+"noop ", [][]int64{{}}, append(k.attrs, noop)
			}
			k.op = op
			k.build = k.computedAxes
			check(k)
		}
	}
}

// axes gives axes to the case's operator: ReduceSum takes them as an input in operator set 17 already.
func (k *jacobianCase) axes(op string, axes []int64) {
	switch {
	case axes == nil:
	case op == "ReduceSum":
		k.ints = [][]int64{axes}
	default:
		k.attrs = append(k.attrs, ir.Ints("axes", axes...))
	}
}

// unranked builds the case with a first input whose rank the file does not tell.
func (k jacobianCase) unranked(g *ir.Graph, args []string) {
	g.AddNamed("the_node", k.op, append([]string{unrank(g, args[0])}, args[1:]...), []string{"y"}, k.attrs...)
}

// computedAxes builds the case with axes that the graph computes.
func (k jacobianCase) computedAxes(g *ir.Graph, args []string) {
	g.AddNamed("the_node", k.op, []string{args[0], computed(g, args[1])}, []string{"y"}, k.attrs...)
}
