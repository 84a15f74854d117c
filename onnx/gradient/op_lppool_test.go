package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

func TestLpPool(t *testing.T) {
	for _, p := range []int64{1, 2, 3, 4} {
		for _, k := range []struct{ size, kernel, stride, pad int64 }{{6, 2, 2, 0}, {7, 2, 2, 0}, {6, 3, 2, 1}, {5, 3, 1, 1}, {7, 2, 3, 0}} {
			checkJacobian(t, jacobianCase{op: "LpPool", single: true, draw: steady,
				name: fmt.Sprint(p, k), shapes: [][]int64{{1, 2, k.size, 4}},
				attrs: nodeAttrs(ir.Int("p", p), ir.Ints("kernel_shape", k.kernel, 2), ir.Ints("strides", k.stride, 2), ir.Ints("pads", k.pad, 0, 0, 0))})
		}
	}
	checkJacobian(t,
		jacobianCase{op: "LpPool", name: "defaults", single: true, opset: 9, static: true, draw: steady, shapes: [][]int64{{1, 2, 3, 4}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 2, 2))},
		jacobianCase{op: "LpPool", name: "same", single: true, draw: steady, shapes: [][]int64{{1, 2, 5, 4}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 2, 2), ir.Ints("strides", 2, 2), ir.String("auto_pad", "SAME_LOWER"))},
		jacobianCase{op: "LpPool", name: "dilated, ceil", single: true, opset: 18, draw: steady, shapes: [][]int64{{1, 2, 7, 4}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 2, 2), ir.Ints("strides", 3, 1), ir.Ints("dilations", 2, 1), ir.Int("ceil_mode", 1))},
		jacobianCase{op: "LpPool", name: "one axis", single: true, draw: steady, shapes: [][]int64{{2, 2, 6}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 3), ir.Ints("strides", 2))},
		jacobianCase{op: "LpPool", name: "three axes", single: true, draw: steady, shapes: [][]int64{{1, 2, 3, 2, 3}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 2, 2, 2))},
	)
}
