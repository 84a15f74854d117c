package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// nodeAttrs lists attributes.
func nodeAttrs(list ...*onnxpb.AttributeProto) []*onnxpb.AttributeProto { return list }

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
						attrs: nodeAttrs(ir.Ints("strides", stride, stride), ir.Ints("pads", pad, pad, pad, pad),
							ir.Ints("dilations", dilation, dilation), ir.Ints("kernel_shape", 3, 2)),
					})
				}
			}
		}
	}
}

// The forms that differ in the nodes that are written: constant weights flip, other ranks, uneven padding.
func TestConvForms(t *testing.T) {
	flip := jacobianCase{op: "Conv", single: true, wrt: []int{0}, consts: true, shapes: [][]int64{{1, flipChannels, 4, 3}, {2, flipChannels, 3, 3}, {2}}}
	for _, f := range []struct {
		name  string
		attrs []*onnxpb.AttributeProto
	}{
		{"flipped no pads", nil},
		{"flipped same", nodeAttrs(ir.Ints("pads", 1, 1, 1, 1))},
		{"flipped uneven", nodeAttrs(ir.Ints("pads", 0, 1, 2, 1))},
		{"more padding than kernel", nodeAttrs(ir.Ints("pads", 3, 3, 3, 3))},
		{"flipped dilated", nodeAttrs(ir.Ints("pads", 2, 1, 2, 1), ir.Ints("dilations", 2, 1))},
		{"flipped same upper", nodeAttrs(ir.String("auto_pad", "SAME_UPPER"))},
	} {
		flip.name, flip.attrs = f.name, f.attrs
		checkJacobian(t, flip)
	}
	checkJacobian(t,
		jacobianCase{op: "Conv", name: "one axis", single: true, shapes: [][]int64{{2, 2, 7}, {3, 2, 3}},
			attrs: nodeAttrs(ir.Ints("strides", 2), ir.Ints("pads", 1, 0), ir.Ints("kernel_shape", 3))},
		jacobianCase{op: "Conv", name: "three axes", single: true, shapes: [][]int64{{1, 1, 3, 4, 3}, {2, 1, 2, 2, 2}},
			attrs: nodeAttrs(ir.Ints("strides", 1, 2, 1))},
		jacobianCase{op: "Conv", name: "uneven", single: true, shapes: [][]int64{{1, 2, 6, 5}, {2, 2, 3, 3}},
			attrs: nodeAttrs(ir.Ints("strides", 2, 3), ir.Ints("pads", 0, 1, 2, 0), ir.Ints("kernel_shape", 3, 3))},
		jacobianCase{op: "Conv", name: "valid", single: true, shapes: [][]int64{{1, 2, 5, 6}, {2, 2, 2, 4}},
			attrs: nodeAttrs(ir.Ints("strides", 2, 2), ir.String("auto_pad", "VALID"), ir.Ints("kernel_shape", 2, 4))},
		jacobianCase{op: "Conv", name: "new", single: true, opset: 23, shapes: [][]int64{{2, 2, 4, 5}, {2, 2, 3, 2}, {2}},
			attrs: nodeAttrs(ir.Ints("strides", 2, 1), ir.Ints("pads", 1, 0, 1, 0), ir.Ints("kernel_shape", 3, 2))},
		jacobianCase{op: "Conv", name: "old", single: true, opset: 8, shapes: [][]int64{{2, 2, 4, 5}, {2, 2, 3, 2}, {2}},
			static: true, attrs: nodeAttrs(ir.Ints("strides", 2, 1), ir.Ints("pads", 1, 0, 1, 0))},
	)
}

// Constant weights over few places: the gradient of x is a product with a matrix.
func TestConvFewPlaces(t *testing.T) {
	few := jacobianCase{op: "Conv", single: true, static: true, wrt: []int{0}, consts: true, dims: [][]int64{{-1, 2, 4, 4}, nil}}
	for _, f := range []struct {
		name   string
		size   int64
		kernel []int64
		attrs  []*onnxpb.AttributeProto
	}{
		{"stride 2", 4, []int64{3, 3}, nodeAttrs(ir.Ints("strides", 2, 2), ir.Ints("pads", 1, 1, 1, 1))},
		{"uneven", 4, []int64{3, 4}, nodeAttrs(ir.Ints("strides", 2, 3), ir.Ints("pads", 0, 1, 2, 0))},
		{"all places", 4, []int64{4, 4}, nil},
		{"dilated", 4, []int64{3, 3}, nodeAttrs(ir.Ints("strides", 2, 1), ir.Ints("pads", 2, 2, 2, 2), ir.Ints("dilations", 2, 2))},
	} {
		few.name, few.attrs = f.name, f.attrs
		few.shapes = [][]int64{{2, 2, f.size, f.size}, append([]int64{3, 2}, f.kernel...)}
		for _, opset := range []int64{8, 9, 17, 23} {
			few.opset = opset
			checkJacobian(t, few)
		}
	}
}

// Constant weights of many output channels with a stride: the gradient of x is computed in phases.
func TestConvInPhases(t *testing.T) {
	phased := jacobianCase{op: "Conv", single: true, static: true, wrt: []int{0}, consts: true, dims: [][]int64{{-1, phaseChannels, 6, 6}, nil}}
	for _, f := range []struct {
		name   string
		kernel []int64
		attrs  []*onnxpb.AttributeProto
	}{
		{"half", []int64{3, 3}, nodeAttrs(ir.Ints("strides", 2, 2), ir.Ints("pads", 1, 1, 1, 1))},
		{"zeros behind", []int64{3, 3}, nodeAttrs(ir.Ints("strides", 2, 2), ir.Ints("pads", 0, 0, 1, 1))},
		{"even kernel", []int64{4, 2}, nodeAttrs(ir.Ints("strides", 2, 2), ir.Ints("pads", 1, 0, 1, 0))},
		{"other strides", []int64{5, 3}, nodeAttrs(ir.Ints("strides", 2, 3), ir.Ints("pads", 2, 1, 1, 0))},
		{"not in whole", []int64{3, 3}, nodeAttrs(ir.Ints("strides", 2, 2))},
		{"kernel below the stride", []int64{1, 1}, nodeAttrs(ir.Ints("strides", 2, 2))},
	} {
		phased.name, phased.attrs = f.name, f.attrs
		phased.shapes = [][]int64{{1, phaseChannels, 6, 6}, append([]int64{2 * phaseChannels, phaseChannels}, f.kernel...)}
		for _, opset := range []int64{8, 17} {
			phased.opset = opset
			checkJacobian(t, phased)
		}
	}
}

// SAME padding depends on the size of x; without shapes in the file it is computed when the graph runs.
func TestConvSame(t *testing.T) {
	for _, mode := range []string{"SAME_UPPER", "SAME_LOWER"} {
		for _, size := range []int64{5, 6} {
			for _, stride := range []int64{1, 2, 3} {
				checkJacobian(t, jacobianCase{op: "Conv", name: fmt.Sprint(mode, stride), single: true,
					shapes: [][]int64{{1, 2, size, 4}, {2, 2, 2, 3}},
					attrs:  nodeAttrs(ir.Ints("strides", stride, stride), ir.String("auto_pad", mode), ir.Ints("kernel_shape", 2, 3))})
			}
		}
	}
	checkJacobian(t, jacobianCase{op: "Conv", name: "no kernel_shape", single: true, wrt: []int{0}, shapes: [][]int64{{1, 2, 5, 4}, {2, 2, 2, 3}},
		attrs: nodeAttrs(ir.Ints("strides", 1, 2), ir.String("auto_pad", "SAME_LOWER"))})
}

// The forms of the gradient of the weights: groups, many channels, a single place, more windows than are written out.
func TestConvWeight(t *testing.T) {
	two := nodeAttrs(ir.Ints("strides", 2, 1), ir.Ints("pads", 1, 0, 0, 1))
	for _, channels := range []int64{2, gatherChannels} {
		checkJacobian(t,
			jacobianCase{op: "Conv", name: "strided", single: true, shapes: [][]int64{{2, channels, 4, 3}, {2, channels, 3, 2}, {2}}, attrs: two},
			jacobianCase{op: "Conv", name: "free batch", single: true, shapes: [][]int64{{2, channels, 4, 3}, {2, channels, 3, 2}},
				dims: [][]int64{{-1, channels, 4, 3}, {2, channels, 3, 2}}, attrs: two, static: true},
			jacobianCase{op: "Conv", name: "one place", single: true, shapes: [][]int64{{2, channels, 2, 2}, {3, channels, 1, 1}},
				attrs: nodeAttrs(ir.Ints("kernel_shape", 1, 1))},
			jacobianCase{op: "Conv", name: "one place, strided", single: true, shapes: [][]int64{{2, channels, 3, 3}, {2, channels, 1, 1}},
				attrs: nodeAttrs(ir.Ints("kernel_shape", 1, 1), ir.Ints("strides", 2, 2))},
			jacobianCase{op: "Conv", name: "one axis", single: true, shapes: [][]int64{{2, channels, 6}, {2, channels, 3}},
				attrs: nodeAttrs(ir.Ints("kernel_shape", 3), ir.Ints("dilations", 2), ir.Ints("pads", 1, 2))},
			jacobianCase{op: "Conv", name: "three axes", single: true, shapes: [][]int64{{1, channels, 2, 3, 2}, {1, channels, 2, 2, 1}},
				attrs: nodeAttrs(ir.Ints("kernel_shape", 2, 2, 1), ir.Ints("pads", 0, 1, 0, 1, 0, 0))},
		)
	}
	for _, group := range []int64{2, 4} {
		grouped := nodeAttrs(ir.Int("group", group), ir.Ints("strides", 2, 1), ir.Ints("pads", 1, 0, 1, 0), ir.Ints("kernel_shape", 3, 2))
		checkJacobian(t,
			jacobianCase{op: "Conv", name: fmt.Sprint("groups ", group), single: true, static: true,
				shapes: [][]int64{{2, 4, 5, 3}, {8, 4 / group, 3, 2}, {8}}, attrs: grouped},
			jacobianCase{op: "Conv", name: fmt.Sprint("groups, free sizes ", group), single: true, static: true,
				shapes: [][]int64{{2, 4, 5, 3}, {4, 4 / group, 3, 2}}, dims: [][]int64{{-1, 4, -1, -1}, {4, 4 / group, 3, 2}}, attrs: grouped},
			jacobianCase{op: "Conv", name: fmt.Sprint("groups, input ", group), single: true, wrt: []int{0, 2},
				shapes: [][]int64{{1, 4, 5, 3}, {4, 4 / group, 3, 2}, {4}}, attrs: grouped},
			jacobianCase{op: "Conv", name: fmt.Sprint("groups, flipped ", group), single: true,
				shapes: [][]int64{{1, 4, 4, 3}, {8, 4 / group, 3, 2}}, wrt: []int{0}, consts: true, attrs: nodeAttrs(ir.Int("group", group), ir.Ints("pads", 1, 0, 0, 1))},
		)
	}
	defer func(limit int64) { columnLimit = limit }(columnLimit)
	columnLimit = 0
	checkJacobian(t, jacobianCase{op: "Conv", name: "swapped", single: true, static: true, shapes: [][]int64{{2, 2, 6, 5}, {3, 2, 3, 2}}, attrs: two})
}
