package gradient

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestBatchNormalization(t *testing.T) {
	attrs := []*onnxpb.AttributeProto{ir.Float("epsilon", 0.125)}
	four := [][]int64{{3}, {3}, {3}, {3}}
	with := func(shape ...int64) [][]int64 { return append([][]int64{shape}, four...) }
	for _, opset := range []int64{8, 9, 14, 15, 17} {
		checkJacobian(t, jacobianCase{op: "BatchNormalization", name: fmt.Sprintf("opset %d ", opset), opset: opset, shapes: with(2, 3, 2), attrs: attrs, draw: positive, static: opset < 13})
	}
	for _, shapes := range [][][]int64{with(2, 3), with(2, 3, 1, 2), with(1, 3, 2, 1, 2)} {
		checkJacobian(t, jacobianCase{op: "BatchNormalization", shapes: shapes, attrs: attrs, draw: positive})
	}
	unranked := jacobianCase{op: "BatchNormalization", name: "rank unknown", shapes: with(2, 3, 2), attrs: attrs, draw: positive, wrt: []int{0}}
	unranked.build = unranked.unranked
	checkJacobian(t, unranked,
		jacobianCase{op: "BatchNormalization", name: "batch", shapes: with(2, 3, 2), dims: [][]int64{{-1, 3, 2}, {3}, {3}, {3}, {3}}, attrs: attrs, draw: positive},
		jacobianCase{op: "BatchNormalization", name: "constants", shapes: with(2, 3, 2), attrs: attrs, draw: positive, wrt: []int{0}, consts: true, single: true},
		jacobianCase{
			op: "BatchNormalization", name: "opset 8 not spatial", opset: 8, shapes: [][]int64{{2, 3, 2}, {3, 2}, {3, 2}, {3, 2}, {3, 2}},
			attrs: append(attrs, ir.Int("spatial", 0)), draw: positive, static: true,
		},
	)
}

// From operator set 15 on the parameters may have another type than the data.
func TestBatchNormalizationMixedTypes(t *testing.T) {
	m := ir.NewModel("test", 8, 15)
	g, err := ir.NewGraph(m)
	must(t, err)
	must(t, g.Input("x", ir.Float32, ir.Fixed(2), ir.Fixed(1)))
	half := func(v float32) string {
		name := g.Unique("half")
		must(t, g.Initializer(ir.Float32Tensor(name, []int64{1}, []float32{v})))
		return g.Add("Cast", []string{name}, ir.Int("to", int64(onnxpb.TensorProto_FLOAT16)))
	}
	scale, bias, mean, variance := half(3), half(1), half(2), half(4)
	g.AddNamed("the_node", "BatchNormalization", []string{"x", scale, bias, mean, variance}, []string{"y"}, ir.Float("epsilon", 0))
	grads, err := Gradient(m, "y", []string{"x", scale, variance})
	must(t, err)
	m.Graph.Output = nil
	must(t, ir.Check(m))
	types := newTyping(m, Standard()).types
	for i, want := range []int32{ir.Float32, int32(onnxpb.TensorProto_FLOAT16), int32(onnxpb.TensorProto_FLOAT16)} {
		if got := types[grads[i]].Elem; got != want {
			t.Errorf("gradient %d has type %s, want %s", i, ir.ElemName(got), ir.ElemName(want))
		}
	}
}

func TestBatchNormalizationTraining(t *testing.T) {
	for opset, outputs := range map[int64][]string{9: {"y", "m", "v", "sm", "sv"}, 15: {"y", "m", "v"}} {
		m := ir.NewModel("test", 8, opset)
		g, err := ir.NewGraph(m)
		must(t, err)
		must(t, g.Input("x", ir.Float32, ir.Free("N"), ir.Fixed(2)))
		must(t, g.Initializer(ir.Float32Tensor("p", []int64{2}, []float32{1, 2})))
		n := g.AddNamed("the_node", "BatchNormalization", []string{"x", "p", "p", "p", "p"}, outputs)
		if opset == 15 {
			n.Attribute = append(n.Attribute, ir.Int("training_mode", 1))
		}
		if _, err := Gradient(m, "y", []string{"x"}); err == nil || !strings.Contains(err.Error(), "export the model in evaluation mode") {
			t.Errorf("operator set %d: error %v", opset, err)
		}
	}
}
