package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

func TestConvTranspose(t *testing.T) {
	for _, stride := range []int64{1, 2, 3} {
		for _, pad := range []int64{0, 1} {
			for _, dilation := range []int64{1, 2} {
				for more := range stride {
					if more == 1 && dilation == 2 || dilation == 2 && stride == 3 {
						continue
					}
					checkJacobian(t, jacobianCase{
						op: "ConvTranspose", name: fmt.Sprintf("stride %d pad %d dilation %d more %d ", stride, pad, dilation, more), single: true,
						shapes: [][]int64{{2, 2, 2, 3}, {2, 3, 3, 2}, {3}},
						attrs: nodeAttrs(ir.Ints("strides", stride, stride), ir.Ints("pads", pad, pad, 0, pad), ir.Ints("dilations", dilation, dilation),
							ir.Ints("output_padding", more, 0), ir.Ints("kernel_shape", 3, 2)),
					})
				}
			}
		}
	}
}

func TestConvTransposeForms(t *testing.T) {
	shapes := [][]int64{{1, 2, 3, 2}, {2, 1, 3, 3}}
	for _, mode := range []string{"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"} {
		checkJacobian(t,
			jacobianCase{op: "ConvTranspose", name: mode, single: true, shapes: shapes,
				attrs: nodeAttrs(ir.Ints("strides", 2, 1), ir.String("auto_pad", mode), ir.Ints("kernel_shape", 3, 3))},
			jacobianCase{op: "ConvTranspose", name: mode + " to a shape", single: true, static: true, shapes: shapes,
				attrs: nodeAttrs(ir.Ints("strides", 2, 1), ir.String("auto_pad", mode), ir.Ints("output_shape", 6, 3))})
	}
	checkJacobian(t,
		jacobianCase{op: "ConvTranspose", name: "to a shape beyond", single: true, static: true, shapes: shapes,
			attrs: nodeAttrs(ir.Ints("strides", 3, 3), ir.Ints("output_shape", 10, 8))},
		jacobianCase{op: "ConvTranspose", name: "no attributes", single: true, shapes: shapes},
		jacobianCase{op: "ConvTranspose", name: "groups", single: true, static: true, shapes: [][]int64{{2, 4, 2, 3}, {4, 3, 2, 2}, {6}},
			attrs: nodeAttrs(ir.Ints("strides", 2, 1), ir.Int("group", 2))},
		jacobianCase{op: "ConvTranspose", name: "many channels", single: true, shapes: [][]int64{{2, 2, 2, 2}, {2, gatherChannels, 2, 2}},
			dims:  [][]int64{{-1, 2, 2, 2}, {2, gatherChannels, 2, 2}},
			attrs: nodeAttrs(ir.Ints("strides", 2, 2), ir.Ints("kernel_shape", 2, 2))},
		jacobianCase{op: "ConvTranspose", name: "one axis", single: true, shapes: [][]int64{{2, 2, 3}, {2, 2, 3}},
			attrs: nodeAttrs(ir.Ints("strides", 2), ir.Ints("pads", 1, 1), ir.Ints("output_padding", 1), ir.Ints("kernel_shape", 3))},
		jacobianCase{op: "ConvTranspose", name: "three axes", single: true, shapes: [][]int64{{1, 1, 2, 2, 2}, {1, 2, 2, 1, 2}},
			attrs: nodeAttrs(ir.Ints("strides", 1, 2, 1), ir.Ints("kernel_shape", 2, 1, 2))},
	)
}
