package gradient

import (
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestGelu(t *testing.T) {
	approximate := func(v string) []*onnxpb.AttributeProto {
		return []*onnxpb.AttributeProto{ir.String("approximate", v)}
	}
	checkJacobian(t,
		jacobianCase{op: "Gelu", shapes: [][]int64{{2, 6}}, opset: 20, single: true},
		jacobianCase{op: "Gelu", shapes: [][]int64{{}}, opset: 20, single: true},
		jacobianCase{op: "Gelu", name: "none", shapes: [][]int64{{2, 3}}, attrs: approximate("none"), opset: 24, single: true},
		jacobianCase{op: "Gelu", name: "tanh", shapes: [][]int64{{2, 6}}, attrs: approximate("tanh"), opset: 20, single: true},
	)
}

func TestGeluOfAnUnknownKind(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
		g.AddNamed("the_node", "Gelu", []string{"x"}, []string{"y"}, ir.String("approximate", "quick"))
	})
	if _, err := Gradient(m, "y", []string{"x"}); err == nil || !strings.Contains(err.Error(), `attribute approximate is "quick"`) {
		t.Errorf("error %v", err)
	}
}
