package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestExponentialUnits(t *testing.T) {
	numbers := func(alpha, gamma float32) []*onnxpb.AttributeProto {
		return []*onnxpb.AttributeProto{ir.Float("alpha", alpha), ir.Float("gamma", gamma)}
	}
	for _, op := range []string{"Elu", "Selu", "Celu"} {
		checkJacobian(t,
			jacobianCase{op: op, shapes: [][]int64{{2, 6}}, single: true},
			jacobianCase{op: op, shapes: [][]int64{{}}, single: true, opset: 12},
		)
		for _, alpha := range []float32{0.5, 2, -0.75} {
			attrs := numbers(alpha, 1)[:1]
			checkJacobian(t, jacobianCase{op: op, name: fmt.Sprint(alpha), shapes: [][]int64{{12}}, attrs: attrs, single: true})
		}
	}
	checkJacobian(t,
		jacobianCase{op: "Elu", name: "opset 7", shapes: [][]int64{{6}}, attrs: numbers(0.5, 0)[:1], single: true, opset: 7, static: true},
		jacobianCase{op: "Selu", name: "opset 7", shapes: [][]int64{{6}}, single: true, opset: 7, static: true},
		jacobianCase{op: "Selu", name: "2, 0.5", shapes: [][]int64{{12}}, attrs: numbers(2, 0.5), single: true},
		jacobianCase{op: "Selu", name: "1.5, -0.5", shapes: [][]int64{{12}}, attrs: numbers(1.5, -0.5), single: true},
	)
}
