package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

// Every stride, padding and size: windows that overlap, touch or leave gaps, and that fit or do not.
func TestAveragePool(t *testing.T) {
	for _, k := range []struct{ size, kernel, stride, pad int64 }{
		{6, 2, 2, 0}, {7, 2, 2, 0}, {6, 3, 3, 0}, {6, 3, 2, 0}, {6, 3, 2, 1}, {5, 3, 2, 1}, {5, 3, 1, 1}, {5, 2, 3, 0}, {7, 2, 3, 1}, {4, 4, 1, 0},
	} {
		for _, include := range []int64{0, 1} {
			for _, ceil := range []int64{0, 1} {
				if k.pad == 0 && include == 1 || ceil == 1 && k.stride == 1 {
					continue
				}
				checkJacobian(t, jacobianCase{op: "AveragePool", single: true,
					name: fmt.Sprint(k, include, ceil), shapes: [][]int64{{2, 2, k.size, 5}},
					attrs: nodeAttrs(ir.Ints("kernel_shape", k.kernel, 2), ir.Ints("strides", k.stride, 1), ir.Ints("pads", k.pad, 0, 0, 1),
						ir.Int("count_include_pad", include), ir.Int("ceil_mode", ceil))})
			}
		}
	}
}

func TestAveragePoolForms(t *testing.T) {
	pair, size := ir.Ints("kernel_shape", 2, 2), [][]int64{{2, 2, 4, 6}}
	free := [][]int64{{-1, 2, -1, -1}}
	for _, opset := range []int64{8, 10, 11, 13, 19} {
		for _, strides := range [][]int64{{2, 2}, {2, 1}} {
			checkJacobian(t, jacobianCase{op: "AveragePool", name: fmt.Sprint("opset ", opset, strides), single: true, opset: opset, static: true,
				shapes: size, attrs: nodeAttrs(pair, ir.Ints("strides", strides...))})
		}
	}
	for _, mode := range []string{"SAME_UPPER", "SAME_LOWER", "VALID"} {
		for _, include := range []int64{0, 1} {
			same := nodeAttrs(ir.Ints("kernel_shape", 2, 3), ir.Ints("strides", 2, 2), ir.String("auto_pad", mode), ir.Int("count_include_pad", include))
			checkJacobian(t,
				jacobianCase{op: "AveragePool", name: mode, single: true, shapes: [][]int64{{1, 2, 5, 6}}, attrs: same},
				jacobianCase{op: "AveragePool", name: mode + " channels", single: true, shapes: [][]int64{{1, 2, 5, 6}}, dims: free, static: true, attrs: same})
		}
	}
	for _, shape := range [][]int64{{2, 2, 4, 4}, {1, 2, 4, 4, 2}} {
		dims := append([]int64{-1}, shape[1:]...)
		for _, stride := range []int64{1, 2} {
			kernel, strides := []int64{2, 2, 2}[:len(shape)-2], []int64{stride, 2, 2}[:len(shape)-2]
			checkJacobian(t, jacobianCase{op: "AveragePool", name: "free batch", single: true, static: true, shapes: [][]int64{shape}, dims: [][]int64{dims},
				attrs: nodeAttrs(ir.Ints("kernel_shape", kernel...), ir.Ints("strides", strides...))})
		}
	}
	checkJacobian(t,
		jacobianCase{op: "AveragePool", name: "same, gaps", single: true, shapes: [][]int64{{1, 1, 7, 7}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 2, 1), ir.Ints("strides", 3, 3), ir.String("auto_pad", "SAME_UPPER"))},
		jacobianCase{op: "AveragePool", name: "dilated", single: true, opset: 19, shapes: [][]int64{{1, 2, 6, 7}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 2, 3), ir.Ints("strides", 1, 2), ir.Ints("dilations", 2, 2), ir.Ints("pads", 1, 0, 1, 1))},
		jacobianCase{op: "AveragePool", name: "one axis", single: true, shapes: [][]int64{{2, 2, 6}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 3), ir.Ints("strides", 2), ir.Ints("pads", 1, 1))},
		jacobianCase{op: "AveragePool", name: "one axis, tiles", single: true, shapes: [][]int64{{2, 2, 6}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 3), ir.Ints("strides", 3))},
		jacobianCase{op: "AveragePool", name: "three axes", single: true, shapes: [][]int64{{2, 2, 3, 4, 5}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 2, 2, 3), ir.Ints("strides", 1, 2, 2), ir.Ints("pads", 1, 0, 0, 0, 0, 1))},
		jacobianCase{op: "AveragePool", name: "three axes, tiles", single: true, shapes: [][]int64{{2, 2, 2, 4, 2}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 2, 2, 1), ir.Ints("strides", 2, 2, 1))},
		jacobianCase{op: "AveragePool", name: "long axis", single: true, shapes: [][]int64{{1, 1, matrixSize + 2}},
			attrs: nodeAttrs(ir.Ints("kernel_shape", 3), ir.Ints("strides", 2), ir.Ints("pads", 1, 0))},
	)
}

func TestGlobalPools(t *testing.T) {
	for _, shape := range [][]int64{{2, 3, 4, 2}, {2, 3, 5}, {1, 2, 2, 2, 3}} {
		checkJacobian(t,
			jacobianCase{op: "GlobalAveragePool", single: true, shapes: [][]int64{shape}},
			jacobianCase{op: "GlobalMaxPool", single: true, shapes: [][]int64{shape}, draw: distinctPlaces()})
		for p := range int64(4) {
			checkJacobian(t, jacobianCase{op: "GlobalLpPool", name: fmt.Sprint(p+1, " "), single: true, draw: steady, shapes: [][]int64{shape},
				attrs: nodeAttrs(ir.Int("p", p+1))})
		}
	}
}
