package gradient

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func scaleList(scales ...float32) *onnxpb.TensorProto {
	return ir.Float32Tensor("scales", []int64{int64(len(scales))}, scales)
}

func resizeAttrs(mode, coordinates, nearest string) []*onnxpb.AttributeProto {
	attrs := []*onnxpb.AttributeProto{ir.String("mode", mode), ir.String("coordinate_transformation_mode", coordinates)}
	if nearest != "" {
		attrs = append(attrs, ir.String("nearest_mode", nearest))
	}
	return attrs
}

// byScales and bySizes are Resize's inputs.
var (
	byScales = []string{"x0", "", "scales"}
	bySizes  = []string{"x0", "", "", "sizes"}
)

func TestResizeNearest(t *testing.T) {
	for _, coordinates := range []string{"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"} {
		for _, nearest := range []string{"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"} {
			attrs, name := resizeAttrs("nearest", coordinates, nearest), coordinates+" "+nearest
			opset := int64(19)
			checkJacobian(t,
				jacobianCase{op: "Resize", name: name, opset: opset, shapes: [][]int64{{2, 5}}, args: byScales, tensors: []*onnxpb.TensorProto{scaleList(2.4, 0.6)}, attrs: attrs, single: true},
				jacobianCase{op: "Resize", name: name + " sizes", opset: opset, shapes: [][]int64{{1, 1, 3, 4}}, args: bySizes, tensors: []*onnxpb.TensorProto{ir.Int64Tensor("sizes", 1, 1, 6, 7)}, attrs: attrs, single: true, static: true},
			)
		}
	}
}

func TestResizeRepeats(t *testing.T) {
	for _, attrs := range [][]*onnxpb.AttributeProto{resizeAttrs("nearest", "asymmetric", "floor"), resizeAttrs("nearest", "half_pixel", "")} {
		for _, scales := range [][]float32{{1, 1, 2, 3}, {1, 2, 1, 2}, {1, 1, 1, 1}} {
			k := jacobianCase{op: "Resize", name: fmt.Sprint(scales), shapes: [][]int64{{2, 2, 2, 2}}, args: byScales, tensors: []*onnxpb.TensorProto{scaleList(scales...)}, attrs: attrs, single: true}
			checkJacobian(t, k)
			k.name += " batch"
			k.dims, k.static = [][]int64{{-1, 2, 2, -1}}, true
			checkJacobian(t, k)
			k.opset, k.dims, k.args = 11, nil, []string{"x0", "none", "scales"}
			k.tensors = append(k.tensors, &onnxpb.TensorProto{Name: "none", DataType: ir.Float32, Dims: []int64{0}})
			checkJacobian(t, k)
		}
	}
}

func TestResizeInterpolated(t *testing.T) {
	for _, mode := range []string{"linear", "cubic"} {
		for _, coordinates := range []string{"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"} {
			attrs, name := resizeAttrs(mode, coordinates, ""), mode+" "+coordinates
			k := jacobianCase{op: "Resize", name: name, opset: 19, shapes: [][]int64{{2, 1, 4, 3}}, args: byScales, tensors: []*onnxpb.TensorProto{scaleList(1, 1, 0.6, 2.4)}, attrs: attrs, single: true, static: true}
			checkJacobian(t, k)
			k.name, k.dims = name+" batch", [][]int64{{-1, -1, 4, 3}}
			checkJacobian(t, k)
			k.name, k.dims, k.args, k.tensors = name+" sizes", nil, bySizes, []*onnxpb.TensorProto{ir.Int64Tensor("sizes", 2, 1, 2, 7)}
			checkJacobian(t, k)
			k.name, k.tensors = name+" to one", []*onnxpb.TensorProto{ir.Int64Tensor("sizes", 2, 1, 1, 4)}
			checkJacobian(t, k)
		}
	}
	checkJacobian(t,
		jacobianCase{op: "Resize", name: "exclude outside", shapes: [][]int64{{1, 1, 4, 3}}, args: byScales, tensors: []*onnxpb.TensorProto{scaleList(1, 1, 1.5, 2)}, single: true, static: true,
			attrs: []*onnxpb.AttributeProto{ir.String("mode", "cubic"), ir.Int("exclude_outside", 1), ir.Float("cubic_coeff_a", -0.5)}},
		jacobianCase{op: "Resize", name: "region", shapes: [][]int64{{1, 1, 4, 5}}, args: []string{"x0", "region", "", "sizes"}, single: true, static: true,
			tensors: []*onnxpb.TensorProto{ir.Float32Tensor("region", []int64{8}, []float32{0, 0, 0.25, 0.4, 1, 1, 0.8, 1.2}), ir.Int64Tensor("sizes", 1, 1, 3, 3)}, attrs: resizeAttrs("linear", "tf_crop_and_resize", "")},
		jacobianCase{op: "Resize", name: "region nearest", shapes: [][]int64{{4, 5}}, args: []string{"x0", "region", "", "sizes"}, single: true, static: true,
			tensors: []*onnxpb.TensorProto{ir.Float32Tensor("region", []int64{4}, []float32{0.25, 0.4, 0.8, 1.2}), ir.Int64Tensor("sizes", 1, 4)}, attrs: resizeAttrs("nearest", "tf_crop_and_resize", "")},
		jacobianCase{op: "Resize", name: "volume", shapes: [][]int64{{1, 1, 2, 3, 2}}, args: byScales, tensors: []*onnxpb.TensorProto{scaleList(1, 1, 2, 2, 1.5)}, single: true, static: true,
			attrs: resizeAttrs("linear", "half_pixel", "")},
		jacobianCase{op: "Resize", name: "channels last", shapes: [][]int64{{1, 2, 3, 2}}, args: byScales, tensors: []*onnxpb.TensorProto{scaleList(1, 2, 2, 1)}, single: true, static: true,
			attrs: resizeAttrs("linear", "half_pixel", "")},
	)
}

func TestResizeForms(t *testing.T) {
	sizes := []*onnxpb.TensorProto{ir.Int64Tensor("sizes", 6, 4), scaleList()}
	axes := ir.Ints("axes", -1, 2)
	checkJacobian(t,
		jacobianCase{op: "Resize", name: "opset 10", opset: 10, shapes: [][]int64{{1, 1, 3, 5}}, args: []string{"x0", "scales"}, tensors: []*onnxpb.TensorProto{scaleList(1, 1, 2.5, 0.7)}, single: true, static: true},
		jacobianCase{op: "Resize", name: "opset 10, linear", opset: 10, shapes: [][]int64{{1, 1, 3, 5}}, args: []string{"x0", "scales"}, tensors: []*onnxpb.TensorProto{scaleList(1, 1, 2.5, 0.7)},
			attrs: []*onnxpb.AttributeProto{ir.String("mode", "linear")}, single: true, static: true},
		jacobianCase{op: "Resize", name: "opset 11, both lists", opset: 11, shapes: [][]int64{{3, 2}}, args: []string{"x0", "scales", "scales", "sizes"}, tensors: sizes, single: true, static: true},
		jacobianCase{op: "Resize", name: "opset 11, tf", opset: 11, shapes: [][]int64{{3, 5}}, args: []string{"x0", "scales", "scales", "sizes"}, tensors: sizes, single: true, static: true,
			attrs: resizeAttrs("nearest", "tf_half_pixel_for_nn", "floor")},
		jacobianCase{op: "Resize", name: "axes", opset: 18, shapes: [][]int64{{1, 1, 3, 2}}, args: byScales, tensors: []*onnxpb.TensorProto{scaleList(2, 1.5)}, attrs: []*onnxpb.AttributeProto{axes}, single: true},
		jacobianCase{op: "Resize", name: "computed sizes", shapes: [][]int64{{3, 2}}, args: bySizes, tensors: sizes[:1], single: true, build: func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", "Resize", []string{args[0], "", "", computed(g, args[3])}, []string{"y"})
		}},
	)
	for _, policy := range []string{"stretch", "not_larger", "not_smaller"} {
		for _, mode := range []string{"nearest", "linear"} {
			checkJacobian(t, jacobianCase{op: "Resize", name: policy + " " + mode, opset: 18, shapes: [][]int64{{1, 1, 3, 4}}, args: bySizes, tensors: []*onnxpb.TensorProto{ir.Int64Tensor("sizes", 7, 6)}, single: true, static: true,
				attrs: []*onnxpb.AttributeProto{ir.String("mode", mode), ir.String("keep_aspect_ratio_policy", policy), ir.Ints("axes", 2, 3)}})
		}
	}
}

func TestUpsample(t *testing.T) {
	for _, mode := range []string{"nearest", "linear"} {
		attrs := []*onnxpb.AttributeProto{ir.String("mode", mode)}
		for _, scales := range [][]float32{{1, 1, 2, 2}, {1, 1, 1.5, 3}} {
			old := append(attrs, &onnxpb.AttributeProto{Name: "scales", Type: onnxpb.AttributeProto_FLOATS, Floats: scales})
			checkJacobian(t,
				jacobianCase{op: "Upsample", name: mode, opset: 9, shapes: [][]int64{{1, 2, 2, 3}}, args: []string{"x0", "scales"}, tensors: []*onnxpb.TensorProto{scaleList(scales...)}, attrs: attrs, single: true, static: true},
				jacobianCase{op: "Upsample", name: mode + " opset 7", opset: 8, shapes: [][]int64{{1, 2, 2, 3}}, attrs: old, single: true, static: true},
			)
		}
	}
}

func TestResizeRefusals(t *testing.T) {
	for want, attrs := range map[string][]*onnxpb.AttributeProto{
		"antialias": {ir.String("mode", "linear"), ir.Int("antialias", 1)},
	} {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x0", ir.Float32, ir.FixedDims(1, 1, 4, 4)...))
			must(t, g.Initializer(scaleList(1, 1, 0.5, 0.5)))
			g.AddNamed("node", "Resize", byScales, []string{"y"}, attrs...)
		})
		if _, err := Gradient(m, "y", []string{"x0"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
