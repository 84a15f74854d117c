package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Every stride, padding, dilation and odd or even size, so that the stride does or does not fit.
func TestConv(t *testing.T) {
	for _, size := range []int64{5, 6} {
		for _, stride := range []int64{1, 2, 3} {
			for _, pad := range []int64{0, 1, 2} {
				for _, dilation := range []int64{1, 2} {
					if (stride == 3 || pad == 2) && dilation == 2 {
						continue
					}
					checkJacobian(t, jacobianCase{
						op: "Conv", name: fmt.Sprintf("stride %d pad %d dilation %d ", stride, pad, dilation), single: true,
						shapes: [][]int64{{2, 2, size, size - 1}, {3, 2, 3, 2}, {3}},
						attrs: []*onnxpb.AttributeProto{
							ir.Ints("strides", stride, stride), ir.Ints("pads", pad, pad, pad, pad), ir.Ints("dilations", dilation, dilation),
							ir.Ints("kernel_shape", 3, 2),
						},
					})
				}
			}
		}
	}
}

// The forms that differ in the nodes that are written: constant weights flip, groups, other ranks, uneven padding.
func TestConvForms(t *testing.T) {
	attrs := func(list ...*onnxpb.AttributeProto) []*onnxpb.AttributeProto { return list }
	flip := jacobianCase{op: "Conv", single: true, wrt: []int{0}, consts: true, shapes: [][]int64{{2, 4, 5, 4}, {3, 4, 3, 3}, {3}}}
	for _, f := range []struct {
		name  string
		attrs []*onnxpb.AttributeProto
	}{
		{"flipped no pads", nil},
		{"flipped same", attrs(ir.Ints("pads", 1, 1, 1, 1))},
		{"flipped full", attrs(ir.Ints("pads", 2, 2, 2, 2))},
		{"flipped uneven", attrs(ir.Ints("pads", 0, 1, 2, 1))},
		{"more padding than kernel", attrs(ir.Ints("pads", 3, 3, 3, 3))},
		{"flipped dilated", attrs(ir.Ints("pads", 2, 1, 2, 1), ir.Ints("dilations", 2, 1))},
		{"flipped same upper", attrs(ir.String("auto_pad", "SAME_UPPER"))},
	} {
		flip.name, flip.attrs = f.name, f.attrs
		flip.static = f.name == "flipped same upper"
		checkJacobian(t, flip)
	}
	checkJacobian(t,
		jacobianCase{op: "Conv", name: "groups", single: true, wrt: []int{0, 2}, consts: false, shapes: [][]int64{{1, 4, 5, 4}, {4, 2, 3, 3}, {4}},
			attrs: attrs(ir.Int("group", 2), ir.Ints("strides", 2, 1), ir.Ints("kernel_shape", 3, 3))},
		jacobianCase{op: "Conv", name: "one axis", single: true, shapes: [][]int64{{2, 2, 7}, {3, 2, 3}},
			attrs: attrs(ir.Ints("strides", 2), ir.Ints("pads", 1, 0), ir.Ints("kernel_shape", 3))},
		jacobianCase{op: "Conv", name: "three axes", single: true, shapes: [][]int64{{1, 1, 3, 4, 3}, {2, 1, 2, 2, 2}}, static: true,
			attrs: attrs(ir.Ints("strides", 1, 2, 1))},
		jacobianCase{op: "Conv", name: "uneven", single: true, shapes: [][]int64{{1, 2, 6, 5}, {2, 2, 3, 3}},
			attrs: attrs(ir.Ints("strides", 2, 3), ir.Ints("pads", 0, 1, 2, 0), ir.Ints("kernel_shape", 3, 3))},
		jacobianCase{op: "Conv", name: "same lower", single: true, static: true, shapes: [][]int64{{1, 2, 5, 6}, {2, 2, 2, 4}},
			attrs: attrs(ir.Ints("strides", 2, 2), ir.String("auto_pad", "SAME_LOWER"))},
		jacobianCase{op: "Conv", name: "valid", single: true, shapes: [][]int64{{1, 2, 5, 6}, {2, 2, 2, 4}},
			attrs: attrs(ir.Ints("strides", 2, 2), ir.String("auto_pad", "VALID"), ir.Ints("kernel_shape", 2, 4))},
	)
}
