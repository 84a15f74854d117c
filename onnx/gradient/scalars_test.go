package gradient

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// A number is read from the raw bytes and from the typed field of a constant of every type that rules look at.
func TestNumbers(t *testing.T) {
	half, err := ir.ScalarTensor("", int32(onnxpb.TensorProto_FLOAT16), -1.5)
	must(t, err)
	list := func(elem onnxpb.TensorProto_DataType) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{DataType: int32(elem), Dims: []int64{1}}
	}
	f32, f64, i32, i64, f16 := list(onnxpb.TensorProto_FLOAT), list(onnxpb.TensorProto_DOUBLE), list(onnxpb.TensorProto_INT32), list(onnxpb.TensorProto_INT64), list(onnxpb.TensorProto_FLOAT16)
	f32.FloatData, f64.DoubleData, i32.Int32Data, i64.Int64Data, f16.Int32Data = []float32{-1.5}, []float64{-1.5}, []int32{-2}, []int64{-2}, []int32{0xbe00}
	for _, c := range []struct {
		tensor *onnxpb.TensorProto
		want   float64
	}{
		{half, -1.5}, {f16, -1.5}, {f32, -1.5}, {f64, -1.5}, {i32, -2}, {i64, -2}, {ir.Float32Tensor("", nil, []float32{-1.5}), -1.5}, {ir.Float64Tensor("", []int64{1, 1}, []float64{-1.5}), -1.5},
		{ir.Int64Tensor("", -2), -2}, {boolTensor("", nil, 1), 1}, {&onnxpb.TensorProto{DataType: i32.DataType, RawData: []byte{0xfe, 0xff, 0xff, 0xff}}, -2},
	} {
		if got, ok := oneNumber(c.tensor); !ok || got != c.want {
			t.Errorf("%v: got %v, %v, want %v", c.tensor, got, ok, c.want)
		}
	}
	for _, none := range []*onnxpb.TensorProto{nil, ir.Int64Tensor("", 1, 2), list(onnxpb.TensorProto_FLOAT), list(onnxpb.TensorProto_FLOAT16), list(onnxpb.TensorProto_STRING)} {
		if got, ok := oneNumber(none); ok {
			t.Errorf("%v: got %v", none, got)
		}
	}
}
