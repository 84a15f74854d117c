package ir

import (
	"math"
	"slices"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestFloats(t *testing.T) {
	half, brain := int32(onnxpb.TensorProto_FLOAT16), int32(onnxpb.TensorProto_BFLOAT16)
	for name, c := range map[string]struct {
		tensor *onnxpb.TensorProto
		want   []float64 // nil: an error
	}{
		"float":              {Float32Tensor("", []int64{2}, []float32{1.5, -2}), []float64{1.5, -2}},
		"float list":         {&onnxpb.TensorProto{DataType: Float32, Dims: []int64{1, 2}, FloatData: []float32{3, 0.25}}, []float64{3, 0.25}},
		"double":             {Float64Tensor("", []int64{2}, []float64{1e300, -2}), []float64{1e300, -2}},
		"double list":        {&onnxpb.TensorProto{DataType: Float64, DoubleData: []float64{0.1}}, []float64{0.1}},
		"half":               {&onnxpb.TensorProto{DataType: half, Dims: []int64{2}, RawData: []byte{0, 0x3c, 0, 0xc0}}, []float64{1, -2}},
		"half list":          {&onnxpb.TensorProto{DataType: half, Dims: []int64{3}, Int32Data: []int32{0x7bff, 1, 0xfc00}}, []float64{65504, 0x1p-24, math.Inf(-1)}},
		"bfloat16":           {&onnxpb.TensorProto{DataType: brain, Dims: []int64{1}, RawData: []byte{0x80, 0x3f}}, []float64{1}},
		"bfloat16 list":      {&onnxpb.TensorProto{DataType: brain, Dims: []int64{1}, Int32Data: []int32{0xc000}}, []float64{-2}},
		"no values":          {&onnxpb.TensorProto{DataType: Float32, Dims: []int64{0, 1 << 40}}, []float64{}},
		"integers":           {tensor: Int64Tensor("", 1)},
		"odd bytes":          {tensor: &onnxpb.TensorProto{DataType: half, Dims: []int64{1}, RawData: []byte{1, 2, 3}}},
		"odd bytes and list": {tensor: &onnxpb.TensorProto{DataType: Float32, Dims: []int64{1}, RawData: []byte{1}, FloatData: []float32{1}}},
		"too many":           {tensor: &onnxpb.TensorProto{DataType: half, Dims: []int64{1}, Int32Data: []int32{1, 2}}},
		"too few":            {tensor: &onnxpb.TensorProto{DataType: Float64, Dims: []int64{2}, DoubleData: []float64{1}}},
		"negative":           {tensor: &onnxpb.TensorProto{DataType: Float64, Dims: []int64{-1, 0}}},
		"elsewhere":          {tensor: stored("w", "data")},
	} {
		got, err := Floats(c.tensor)
		if c.want == nil && err == nil || c.want != nil && (err != nil || !slices.Equal(got, c.want)) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

// Every half-precision number survives decoding and encoding.
func TestHalfBitsRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		b := uint16(i)
		if v := fromHalf(b); v == v && halfBits(v) != b {
			t.Fatalf("%#x is %v, which is %#x", b, v, halfBits(v))
		} else if v != v && b&0x7c00 != 0x7c00 {
			t.Fatalf("%#x is no number", b)
		}
		if v := fromBrain(b); v == v && brainBits(v) != b {
			t.Fatalf("%#x is %v, which is %#x", b, v, brainBits(v))
		}
	}
}

func TestIntegers(t *testing.T) {
	for name, c := range map[string]struct {
		elem onnxpb.TensorProto_DataType
		raw  []byte
		list any
		want []int64 // nil: an error
	}{
		"int64":         {onnxpb.TensorProto_INT64, []byte{0xfe, 255, 255, 255, 255, 255, 255, 255}, nil, []int64{-2}},
		"int64 list":    {onnxpb.TensorProto_INT64, nil, []int64{math.MinInt64}, []int64{math.MinInt64}},
		"int32":         {onnxpb.TensorProto_INT32, []byte{0xfe, 255, 255, 255}, nil, []int64{-2}},
		"int32 list":    {onnxpb.TensorProto_INT32, nil, []int32{-2, 5}, []int64{-2, 5}},
		"int16":         {onnxpb.TensorProto_INT16, []byte{0xfe, 255}, nil, []int64{-2}},
		"uint16":        {onnxpb.TensorProto_UINT16, []byte{0xfe, 255}, nil, []int64{65534}},
		"int8":          {onnxpb.TensorProto_INT8, []byte{0xfe, 3}, nil, []int64{-2, 3}},
		"int8 list":     {onnxpb.TensorProto_INT8, nil, []int32{-2}, []int64{-2}},
		"uint8":         {onnxpb.TensorProto_UINT8, []byte{0xfe}, nil, []int64{254}},
		"uint8 list":    {onnxpb.TensorProto_UINT8, nil, []int32{254}, []int64{254}},
		"bool":          {onnxpb.TensorProto_BOOL, []byte{0, 1, 2}, nil, []int64{0, 1, 1}},
		"bool list":     {onnxpb.TensorProto_BOOL, nil, []int32{1, 0}, []int64{1, 0}},
		"uint32":        {onnxpb.TensorProto_UINT32, []byte{255, 255, 255, 255}, nil, []int64{math.MaxUint32}},
		"uint64":        {onnxpb.TensorProto_UINT64, nil, []uint64{7}, []int64{7}},
		"uint64 beyond": {onnxpb.TensorProto_UINT64, nil, []uint64{1 << 63}, nil},
		"float":         {onnxpb.TensorProto_FLOAT, []byte{0, 0, 0, 0}, nil, nil},
		"odd bytes":     {onnxpb.TensorProto_INT32, []byte{0, 0, 0, 0, 1}, nil, nil},
		"strings":       {onnxpb.TensorProto_STRING, nil, nil, nil},
	} {
		x := &onnxpb.TensorProto{DataType: int32(c.elem), RawData: c.raw, Dims: []int64{int64(max(len(c.want), 1))}}
		switch list := c.list.(type) {
		case []int64:
			x.Int64Data = list
		case []int32:
			x.Int32Data = list
		case []uint64:
			x.Uint64Data = list
		}
		got, err := Integers(x)
		if c.want == nil && err == nil || c.want != nil && (err != nil || !slices.Equal(got, c.want)) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
		x.Dims = []int64{100}
		if _, err := Integers(x); err == nil {
			t.Errorf("%s: values are missing, but no error", name)
		}
	}
}
