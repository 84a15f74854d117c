package gradient

import (
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestDropout(t *testing.T) {
	tensors := func(training byte) []*onnxpb.TensorProto {
		return []*onnxpb.TensorProto{ir.Float32Tensor("ratio", nil, []float32{0.3}), boolTensor("training", nil, training), ir.Float32Tensor("never", nil, []float32{0})}
	}
	masked := func(g *ir.Graph, args []string) {
		g.AddNamed("the_node", "Dropout", args, []string{"y", "mask"})
	}
	shapes := [][]int64{{2, 3}}
	ratio := []*onnxpb.AttributeProto{ir.Float("ratio", 0.3)}
	checkJacobian(t,
		jacobianCase{op: "Dropout", shapes: shapes},
		jacobianCase{op: "Dropout", name: "mask", shapes: shapes, build: masked},
		jacobianCase{op: "Dropout", name: "ratio", shapes: shapes, args: []string{"x0", "ratio"}, tensors: tensors(0)},
		jacobianCase{op: "Dropout", name: "not training", shapes: shapes, args: []string{"x0", "ratio", "training"}, tensors: tensors(0)},
		jacobianCase{op: "Dropout", name: "nothing dropped", shapes: shapes, args: []string{"x0", "never", "training"}, tensors: tensors(1)},
		jacobianCase{op: "Dropout", name: "opset 8", shapes: shapes, attrs: ratio, opset: 8, static: true},
		jacobianCase{op: "Dropout", name: "opset 10", shapes: shapes, attrs: ratio, opset: 10, static: true, build: masked},
		jacobianCase{op: "Dropout", name: "opset 22", shapes: shapes, opset: 22},
	)
}

func TestDropoutInTraining(t *testing.T) {
	for _, training := range []string{"training", "fed"} {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
			must(t, g.Input("fed", ir.Bool))
			must(t, g.Initializer(boolTensor("training", nil, 1)))
			g.AddNamed("the_node", "Dropout", []string{"x", "", training}, []string{"y"})
		})
		_, err := Gradient(m, "y", []string{"x"})
		if err == nil || !strings.Contains(err.Error(), "random") || !strings.Contains(err.Error(), "inference mode") {
			t.Errorf("%s: error %v", training, err)
		}
	}
}
