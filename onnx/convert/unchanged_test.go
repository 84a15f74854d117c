package convert

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Operators without an adapter have new versions too: they must mean the same. Kernels may add
// in another order.
func TestUnchangedOperators(t *testing.T) {
	kernel, pads, strides := ir.Ints("kernel_shape", 3, 2), ir.Ints("pads", 1, 0, 1, 1), ir.Ints("strides", 2, 2)
	image := []int64{1, 2, 7, 6}
	one := func(op string, attrs ...*onnxpb.AttributeProto) func(b builder) {
		return func(b builder) { b.y(op, x, attrs...) }
	}
	weights := func(b builder, shape ...int64) string {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(i%7)/4 - 0.75
		}
		return b.floats(shape, v...)
	}
	var cases []raiseCase
	add := func(op string, from int64, shape []int64, build func(b builder)) {
		cases = append(cases, raiseCase{name: fmt.Sprint(op, " ", len(cases)), from: from, shape: shape, tolerance: 1e-6, build: build})
	}
	for _, op := range []string{"Abs", "Ceil", "Elu", "Exp", "Floor", "HardSigmoid", "Identity", "LeakyRelu", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sin", "Softplus", "Softsign", "Tanh"} {
		add(op, 7, []int64{3, 4}, one(op))
	}
	for _, count := range []int64{0, 1} {
		include := ir.Int("count_include_pad", count)
		add("AveragePool", 7, image, one("AveragePool", kernel, pads, strides, include))
		add("AveragePool", 10, image, one("AveragePool", kernel, pads, strides, ir.Int("ceil_mode", 1), include))
		add("AveragePool", 7, image, one("AveragePool", kernel, ir.String("auto_pad", "SAME_UPPER"), strides, include))
	}
	add("MaxPool", 7, image, one("MaxPool", kernel, pads, strides))
	add("MaxPool", 8, image, func(b builder) {
		b.AddNamed("n", "MaxPool", x, []string{"y", "at"}, kernel, ir.Int("storage_order", 1))
	})
	add("MaxPool", 10, image, one("MaxPool", kernel, strides, ir.Ints("dilations", 2, 1), ir.Int("ceil_mode", 1)))
	add("LpPool", 7, image, one("LpPool", kernel, strides, ir.Int("p", 2)))
	add("GlobalAveragePool", 7, image, one("GlobalAveragePool"))
	add("GlobalMaxPool", 7, image, one("GlobalMaxPool"))
	add("LRN", 7, image, one("LRN", ir.Int("size", 3)))
	add("Flatten", 7, image, one("Flatten", ir.Int("axis", 2)))
	add("Transpose", 7, image, one("Transpose", ir.Ints("perm", 2, 0, 3, 1)))
	add("DepthToSpace", 7, []int64{1, 8, 2, 3}, one("DepthToSpace", ir.Int("blocksize", 2)))
	add("SpaceToDepth", 7, []int64{1, 2, 4, 6}, one("SpaceToDepth", ir.Int("blocksize", 2)))
	add("MeanVarianceNormalization", 9, image, one("MeanVarianceNormalization"))
	add("Conv", 7, image, func(b builder) {
		b.y("Conv", []string{"x", weights(b, 4, 1, 3, 2), weights(b, 4)}, pads, ir.Int("group", 2))
	})
	add("ConvTranspose", 7, image, func(b builder) {
		b.y("ConvTranspose", []string{"x", weights(b, 2, 3, 3, 2)}, strides, ir.Ints("output_padding", 1, 0))
	})
	add("ConvTranspose", 7, image, func(b builder) {
		b.y("ConvTranspose", []string{"x", weights(b, 2, 3, 3, 2)}, strides, ir.String("auto_pad", "SAME_LOWER"))
	})
	add("InstanceNormalization", 7, image, func(b builder) { b.y("InstanceNormalization", []string{"x", weights(b, 2), weights(b, 2)}) })
	add("PRelu", 7, image, func(b builder) { b.y("PRelu", []string{"x", weights(b, 2, 1, 1)}) })
	add("Gemm", 7, []int64{3, 4}, func(b builder) {
		b.y("Gemm", []string{"x", weights(b, 5, 4), weights(b, 5)}, ir.Int("transB", 1), ir.Float("alpha", 0.5), ir.Float("beta", 2))
	})
	add("MatMul", 7, []int64{2, 3, 4}, func(b builder) { b.y("MatMul", []string{"x", weights(b, 4, 2)}) })
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean"} {
		from := int64(8)
		if len(op) == 3 && op != "Max" && op != "Min" && op != "Sum" {
			from = 7
		}
		add(op, from, []int64{2, 3, 4}, func(b builder) { b.y(op, []string{"x", weights(b, 3, 1)}) })
	}
	add("Pow", 7, []int64{2, 3}, func(b builder) { b.y("Pow", []string{b.Add("Abs", x), b.floats(nil, 1.5)}) })
	add("Concat", 7, []int64{2, 3}, func(b builder) { b.y("Concat", []string{"x", weights(b, 2, 2)}, ir.Int("axis", 1)) })
	add("Gather", 7, []int64{4, 3}, func(b builder) { b.y("Gather", []string{"x", b.ints(3, 0)}, ir.Int("axis", 0)) })
	add("Reshape", 7, []int64{4, 3}, func(b builder) { b.y("Reshape", []string{"x", b.ints(0, 1, -1)}) })
	add("Expand", 8, []int64{4, 1}, func(b builder) { b.y("Expand", []string{"x", b.ints(2, 1, 3)}) })
	add("Tile", 7, []int64{2, 3}, func(b builder) { b.y("Tile", []string{"x", b.ints(2, 1)}) })
	add("ScatterND", 11, []int64{4}, func(b builder) {
		at := ir.Int64Tensor("at", 2, 0)
		at.Dims = []int64{2, 1}
		must(b.T, b.Initializer(at))
		b.y("ScatterND", []string{"x", "at", weights(b, 2)})
	})
	add("CumSum", 11, []int64{4, 3}, func(b builder) { b.y("CumSum", []string{"x", b.ints(1)}, ir.Int("reverse", 1)) })
	add("Where", 9, []int64{4, 3}, func(b builder) {
		b.y("Where", []string{b.Add("Less", []string{"x", b.floats(nil, 0)}), "x", b.floats(nil, 2)})
	})
	add("ArgMax", 7, []int64{4, 3}, func(b builder) {
		b.y("Cast", []string{b.Add("ArgMax", x, ir.Int("axis", 1))}, ir.Int("to", int64(ir.Float32)))
	})
	add("OneHot", 9, []int64{4}, func(b builder) {
		b.y("OneHot", []string{b.Add("Cast", []string{b.Add("Abs", x)}, ir.Int("to", int64(ir.Int64))), b.ints(3), b.floats([]int64{2}, -1, 1)})
	})
	add("Quantize", 10, []int64{4, 3}, func(b builder) {
		must(b.T, b.Initializer(&onnxpb.TensorProto{Name: "zero", DataType: int32(onnxpb.TensorProto_UINT8), RawData: []byte{128}}))
		s := b.floats(nil, 0.02)
		b.y("DequantizeLinear", []string{b.Add("QuantizeLinear", []string{"x", s, "zero"}), s, "zero"})
	})
	for op, gates := range map[string]int64{"RNN": 1, "GRU": 3, "LSTM": 4} {
		add(op, 7, []int64{5, 2, 3}, func(b builder) {
			b.y(op, []string{"x", weights(b, 2, 4*gates, 3), weights(b, 2, 4*gates, 4), weights(b, 2, 8*gates)}, ir.Int("hidden_size", 4), ir.String("direction", "bidirectional"))
		})
	}
	check(t, cases...)
}
