package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestDepthToSpace(t *testing.T) {
	shapes := [][]int64{{2, 8, 2, 3}}
	block := func(mode string) []*onnxpb.AttributeProto {
		return []*onnxpb.AttributeProto{ir.Int("blocksize", 2), ir.String("mode", mode)}
	}
	checkJacobian(t,
		jacobianCase{op: "DepthToSpace", shapes: shapes, attrs: block("DCR")},
		jacobianCase{op: "DepthToSpace", name: "CRD", shapes: shapes, attrs: block("CRD"), static: true},
		jacobianCase{op: "DepthToSpace", name: "CRD, free", shapes: shapes, attrs: block("CRD"), dims: [][]int64{{-1, 8, -1, -1}}, static: true},
		jacobianCase{op: "DepthToSpace", name: "opset 9", opset: 9, shapes: shapes, attrs: block("DCR")[:1], static: true},
	)
}

func TestSpaceToDepth(t *testing.T) {
	block := []*onnxpb.AttributeProto{ir.Int("blocksize", 2)}
	checkJacobian(t,
		jacobianCase{op: "SpaceToDepth", shapes: [][]int64{{2, 2, 4, 2}}, attrs: block},
		jacobianCase{op: "SpaceToDepth", name: "opset 9", opset: 9, shapes: [][]int64{{1, 2, 4, 2}}, attrs: block, static: true},
	)
}
