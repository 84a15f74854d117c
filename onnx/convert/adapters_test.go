package convert

import (
	"fmt"
	"math"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

var x = []string{"x"}

func TestAxesBecomeAnInput(t *testing.T) {
	var cases []raiseCase
	for _, op := range []string{"ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"} {
		for _, axes := range [][]int64{nil, {1}, {0, 2}} {
			for from := int64(7); from < 18; from += 5 {
				if op == "ReduceSum" && from >= 13 {
					continue
				}
				cases = append(cases, raiseCase{name: fmt.Sprint(op, axes, " from ", from), from: from, shape: []int64{2, 3, 4}, build: func(b builder) {
					attrs := []*onnxpb.AttributeProto{ir.Int("keepdims", int64(len(axes)%2))}
					if axes != nil {
						attrs = append(attrs, ir.Ints("axes", axes...))
					}
					b.y(op, x, attrs...)
				}})
			}
		}
	}
	cases = append(cases,
		raiseCase{name: "ReduceLogSum", from: 11, shape: []int64{2, 3}, build: func(b builder) { b.y("ReduceLogSum", []string{b.Add("Abs", x)}, ir.Ints("axes", -1)) }},
		raiseCase{name: "Squeeze", from: 7, shape: []int64{1, 2, 1}, build: func(b builder) { b.y("Squeeze", x, ir.Ints("axes", 2)) }},
		raiseCase{name: "Squeeze all", from: 7, shape: []int64{1, 2, 1}, build: func(b builder) { b.y("Squeeze", x) }},
		raiseCase{name: "Squeeze from the end", from: 11, shape: []int64{1, 2, 1}, build: func(b builder) { b.y("Squeeze", x, ir.Ints("axes", -1)) }},
		raiseCase{name: "Unsqueeze", from: 7, shape: []int64{2}, build: func(b builder) { b.y("Unsqueeze", x, ir.Ints("axes", 0, 2)) }},
	)
	check(t, cases...)
}

func TestSplit(t *testing.T) {
	split := func(parts int, attrs ...*onnxpb.AttributeProto) func(b builder) {
		return func(b builder) {
			var out []string
			for i := range parts {
				out = append(out, fmt.Sprint("p", i))
			}
			b.AddNamed("s", "Split", x, out, attrs...)
			b.y("Concat", []string{out[parts-1], out[0]}, ir.Int("axis", 1))
		}
	}
	check(t,
		raiseCase{name: "sizes", from: 7, shape: []int64{2, 6}, build: split(3, ir.Int("axis", 1), ir.Ints("split", 1, 2, 3))},
		raiseCase{name: "equal", from: 7, shape: []int64{2, 6}, build: split(3, ir.Int("axis", 1))},
		raiseCase{name: "equal, from 13", from: 13, shape: []int64{2, 6}, build: split(2, ir.Int("axis", -1))},
		raiseCase{name: "one part", from: 11, shape: []int64{2, 6}, build: split(1)},
	)
}

func TestSoftmax(t *testing.T) {
	var cases []raiseCase
	for _, op := range []string{"Softmax", "LogSoftmax", "Hardmax"} {
		for _, c := range []struct {
			shape []int64
			axis  int64 // 9: not stated
			op    string
			free  bool
		}{
			{[]int64{2, 3}, 9, op, false}, {[]int64{2, 3}, 1, op, false}, {[]int64{2, 3}, 0, "Shape Flatten " + op + " Reshape", false},
			{[]int64{2, 3, 4}, 9, "Shape Flatten " + op + " Reshape", false}, {[]int64{2, 3, 4}, 2, op, false}, {[]int64{2, 3, 1, 1}, 9, op, false},
			{[]int64{2, 3, 4}, 9, "Shape Flatten " + op + " Reshape", true}, {[]int64{2, 3}, 9, "Shape Flatten " + op + " Reshape", true},
			{[]int64{2, 3, 2, 2}, 2, "Shape Flatten " + op + " Reshape", false}, {[]int64{2, 3, 4}, -1, op, true}, {[]int64{2, 3, 4}, -2, "Shape Flatten " + op + " Reshape", true},
		} {
			from := int64(7)
			if c.axis < 0 {
				from = 11
			}
			cases = append(cases, raiseCase{name: fmt.Sprint(op, c.shape, c.axis, c.free), from: from, shape: c.shape, free: c.free, op: c.op, build: func(b builder) {
				if c.axis == 9 {
					b.y(op, x)
				} else {
					b.y(op, x, ir.Int("axis", c.axis))
				}
			}})
		}
	}
	cases = append(cases, raiseCase{name: "rank behind other operators", from: 7, shape: []int64{2, 3}, op: "Gemm Relu Softmax", build: func(b builder) {
		b.y("Softmax", []string{b.Add("Relu", []string{b.Add("Gemm", []string{"x", b.floats([]int64{3, 2}, 1, 2, 3, 4, 5, 6), b.floats([]int64{2}, 1, 2)})})})
	}})
	check(t, cases...)
}

func TestAttributesBecomeInputs(t *testing.T) {
	pads := func(v ...int64) *onnxpb.AttributeProto { return ir.Ints("pads", v...) }
	check(t,
		raiseCase{name: "Clip", from: 7, shape: []int64{20}, build: func(b builder) { b.y("Clip", x, ir.Float("min", -0.5), ir.Float("max", 0.25)) }},
		raiseCase{name: "Clip below", from: 7, shape: []int64{20}, build: func(b builder) { b.y("Clip", x, ir.Float("min", 0)) }},
		raiseCase{name: "Clip above", from: 7, shape: []int64{20}, build: func(b builder) { b.y("Clip", x, ir.Float("max", 6)) }},
		raiseCase{name: "Clip nothing", from: 7, shape: []int64{20}, build: func(b builder) { b.y("Clip", x, ir.Float("max", math.MaxFloat32)) }},
		raiseCase{name: "Clip of a computed value", from: 7, shape: []int64{4, 5}, free: true, build: func(b builder) {
			b.y("Clip", []string{b.Add("Add", []string{b.Add("Transpose", x), b.floats(nil, 1)})}, ir.Float("min", 0), ir.Float("max", 6))
		}},
		raiseCase{name: "Clip in half precision", from: 7, shape: []int64{20}, tolerance: 1e-3, build: func(b builder) {
			half := b.Add("Cast", x, ir.Int("to", int64(onnxpb.TensorProto_FLOAT16)))
			b.y("Cast", []string{b.Add("Clip", []string{half}, ir.Float("min", 0), ir.Float("max", 0.5))}, ir.Int("to", int64(ir.Float32)))
		}},
		raiseCase{name: "Pad", from: 7, shape: []int64{2, 3}, build: func(b builder) { b.y("Pad", x, pads(1, 0, 0, 2)) }},
		raiseCase{name: "Pad with a value", from: 7, shape: []int64{2, 3}, build: func(b builder) { b.y("Pad", x, pads(1, 0, 0, 2), ir.Float("value", 1.5)) }},
		raiseCase{name: "Pad edge", from: 7, shape: []int64{2, 3}, build: func(b builder) { b.y("Pad", x, pads(1, 0, 0, 2), ir.String("mode", "edge"), ir.Float("value", 1)) }},
		raiseCase{name: "Pad reflect", from: 7, shape: []int64{3, 3}, build: func(b builder) { b.y("Pad", x, pads(1, 0, 0, 2), ir.String("mode", "reflect")) }},
		raiseCase{name: "Pad crops", from: 7, shape: []int64{3, 3}, build: func(b builder) { b.y("Pad", x, pads(-1, 0, 0, 2)) }},
		raiseCase{name: "Slice", from: 7, shape: []int64{4, 5}, build: func(b builder) {
			b.y("Slice", x, ir.Ints("starts", 1, -3), ir.Ints("ends", 1000, -1), ir.Ints("axes", 0, 1))
		}},
		raiseCase{name: "Slice of the first axes", from: 7, shape: []int64{4, 5}, build: func(b builder) { b.y("Slice", x, ir.Ints("starts", 1), ir.Ints("ends", 3)) }},
		raiseCase{name: "TopK", from: 7, shape: []int64{4, 5}, build: func(b builder) { b.AddNamed("n", "TopK", x, []string{"y", "at"}, ir.Int("k", 2), ir.Int("axis", 0)) }},
		raiseCase{name: "TopK, from 10", from: 10, shape: []int64{4, 5}, build: func(b builder) { b.AddNamed("n", "TopK", []string{"x", b.ints(3)}, []string{"y", "at"}) }},
		raiseCase{name: "Dropout", from: 7, shape: []int64{4, 5}, build: func(b builder) { b.y("Dropout", x, ir.Float("ratio", 0.25)) }},
		raiseCase{name: "Dropout with a mask that is not used", from: 7, shape: []int64{4, 5}, build: func(b builder) { b.AddNamed("n", "Dropout", x, []string{"y", "mask"}) }},
		raiseCase{name: "Dropout with a boolean mask", from: 10, shape: []int64{4, 5}, build: func(b builder) { b.AddNamed("n", "Dropout", x, []string{"y", "mask"}) }},
		raiseCase{name: "DFT", from: 17, shape: []int64{1, 5, 2}, build: func(b builder) { b.y("DFT", x) }},
		raiseCase{name: "DFT along an axis", from: 17, shape: []int64{1, 5, 4, 1}, build: func(b builder) { b.y("DFT", x, ir.Int("axis", 2)) }},
	)
}

func TestRenamedOperatorsAndModes(t *testing.T) {
	check(t,
		raiseCase{name: "Scatter", from: 9, shape: []int64{3, 3}, build: func(b builder) {
			i := ir.Int64Tensor("at", 1, 0, 2)
			i.Dims = []int64{1, 3}
			must(b.T, b.Initializer(i))
			b.y("Scatter", []string{"x", "at", b.floats([]int64{1, 3}, 7, 8, 9)}, ir.Int("axis", 0))
		}},
		raiseCase{name: "DynamicSlice", from: 9, shape: []int64{4, 5}, build: func(b builder) { b.y("DynamicSlice", []string{"x", b.ints(1), b.ints(3), b.ints(0)}) }},
		raiseCase{name: "RoiAlign", from: 10, shape: []int64{1, 2, 8, 8}, last: 21, build: func(b builder) {
			b.y("RoiAlign", []string{"x", b.floats([]int64{1, 4}, 1, 1, 6, 5), b.ints(0)}, ir.Int("output_height", 3), ir.Int("output_width", 3), ir.Int("sampling_ratio", 2))
		}},
		raiseCase{name: "GridSample", from: 16, shape: []int64{1, 1, 4, 4}, build: func(b builder) {
			b.y("GridSample", []string{"x", b.floats([]int64{1, 1, 2, 2}, 0.1, -0.3, 0.5, 0.7)})
		}},
		raiseCase{name: "GridSample bicubic", from: 16, shape: []int64{1, 1, 4, 4}, build: func(b builder) {
			b.y("GridSample", []string{"x", b.floats([]int64{1, 1, 2, 2}, 0.1, -0.3, 0.5, 0.7)}, ir.String("mode", "bicubic"), ir.Int("align_corners", 1))
		}},
		raiseCase{name: "GridSample nearest", from: 16, shape: []int64{1, 1, 4, 4}, build: func(b builder) {
			b.y("GridSample", []string{"x", b.floats([]int64{1, 1, 2, 2}, 0.1, -0.3, 0.5, 0.7)}, ir.String("mode", "nearest"))
		}},
	)
}

func TestResize(t *testing.T) {
	var cases []raiseCase
	for _, mode := range []string{"nearest", "linear"} {
		for _, scales := range [][]float32{{1, 1, 2, 3}, {1, 1, 1.5, 2.5}, {1, 1, 1, 1}, {1, 1, 0.6, 0.6}, {1, 1, 0.5, 2}, {1, 1, 1.7, 0.4}} {
			grows := scales[2] >= 1 && scales[3] >= 1
			shape := []int64{1, 2, 5, 6}
			attr := ir.String("mode", mode)
			name := fmt.Sprint(mode, scales)
			if grows {
				cases = append(cases,
					raiseCase{name: "Upsample 7 " + name, from: 7, shape: shape, tolerance: 1e-6, build: func(b builder) { b.y("Upsample", x, attr, floatList("scales", scales...)) }},
					raiseCase{name: "Upsample 9 " + name, from: 9, shape: shape, tolerance: 1e-6, build: func(b builder) { b.y("Upsample", []string{"x", b.floats([]int64{4}, scales...)}, attr) }})
			}
			cases = append(cases,
				raiseCase{name: "Resize 10 " + name, from: 10, shape: shape, tolerance: 1e-6, build: func(b builder) { b.y("Resize", []string{"x", b.floats([]int64{4}, scales...)}, attr) }},
				raiseCase{name: "Resize 10, computed scales " + name, from: 10, shape: shape, tolerance: 1e-6, build: func(b builder) {
					b.y("Resize", []string{"x", b.Add("Add", []string{b.floats([]int64{4}, scales...), b.Add("ReduceMean", []string{b.Add("Sub", []string{"x", "x"})}, ir.Int("keepdims", 0))})}, attr)
				}},
				raiseCase{name: "Resize 11 " + name, from: 11, shape: shape, tolerance: 1e-6, build: func(b builder) {
					b.y("Resize", []string{"x", b.floats([]int64{0}), b.floats([]int64{4}, scales...)}, attr)
				}})
		}
	}
	cases = append(cases, raiseCase{name: "Resize 11 to sizes, computed empty scales", from: 11, shape: []int64{1, 2, 5, 6}, tolerance: 1e-6, build: func(b builder) {
		b.y("Resize", []string{"x", b.floats([]int64{0}), b.Add("ConstantOfShape", []string{b.ints(0)}), b.ints(1, 2, 7, 4)}, ir.String("mode", "linear"))
	}}, raiseCase{name: "Resize 11 to sizes", from: 11, shape: []int64{1, 2, 5, 6}, tolerance: 1e-6, build: func(b builder) {
		b.y("Resize", []string{"x", b.floats([]int64{0}), b.floats([]int64{0}), b.ints(1, 2, 7, 4)}, ir.String("mode", "cubic"), ir.String("coordinate_transformation_mode", "align_corners"))
	}})
	check(t, cases...)
}

func TestNormalizations(t *testing.T) {
	channels := func(b builder) []string {
		return []string{"x", b.floats([]int64{3}, 1, 2, -1), b.floats([]int64{3}, 0.5, 0, 1), b.floats([]int64{3}, 0.1, 0.2, 0.3), b.floats([]int64{3}, 1, 2, 0.5)}
	}
	shape := []int64{2, 3, 4}
	var cases []raiseCase
	for _, from := range []int64{7, 9, 14} {
		cases = append(cases, raiseCase{name: fmt.Sprint("BatchNormalization from ", from), from: from, shape: shape, build: func(b builder) {
			attrs := []*onnxpb.AttributeProto{ir.Float("epsilon", 1e-3), ir.Float("momentum", 0.5)}
			if from == 7 {
				attrs = append(attrs, ir.Int("spatial", 1))
			}
			b.y("BatchNormalization", channels(b), attrs...)
		}})
	}
	for _, free := range []bool{false, true} {
		cases = append(cases, raiseCase{name: fmt.Sprint("GroupNormalization, shape not stated: ", free), from: 18, shape: []int64{2, 6, 4}, free: free, tolerance: 1e-6, build: func(b builder) {
			b.y("GroupNormalization", []string{"x", b.floats([]int64{3}, 1, 2, -1), b.floats([]int64{3}, 0.5, 0, 1)}, ir.Int("num_groups", 3))
		}})
	}
	check(t, cases...)
}
