package ir

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Element types of tensors, as the format numbers them.
const (
	Float32 = int32(onnxpb.TensorProto_FLOAT)
	Float64 = int32(onnxpb.TensorProto_DOUBLE)
	Int64   = int32(onnxpb.TensorProto_INT64)
	Bool    = int32(onnxpb.TensorProto_BOOL)
)

// IsFloat says whether an element type is a floating-point type that a gradient can have.
func IsFloat(elem int32) bool {
	switch onnxpb.TensorProto_DataType(elem) {
	case onnxpb.TensorProto_FLOAT, onnxpb.TensorProto_DOUBLE, onnxpb.TensorProto_FLOAT16, onnxpb.TensorProto_BFLOAT16:
		return true
	}
	return false
}

// Float32Tensor is a constant of 32-bit floats in row-major order, copied from data.
func Float32Tensor(name string, shape []int64, data []float32) *onnxpb.TensorProto {
	raw := make([]byte, 0, 4*len(data))
	for _, v := range data {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return &onnxpb.TensorProto{Name: name, DataType: Float32, Dims: slices.Clone(shape), RawData: raw}
}

// Float64Tensor is a constant of 64-bit floats in row-major order, copied from data.
func Float64Tensor(name string, shape []int64, data []float64) *onnxpb.TensorProto {
	raw := make([]byte, 0, 8*len(data))
	for _, v := range data {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	return &onnxpb.TensorProto{Name: name, DataType: Float64, Dims: slices.Clone(shape), RawData: raw}
}

// Int64Tensor is a one-dimensional constant of integers, such as a shape or a list of axes.
func Int64Tensor(name string, data ...int64) *onnxpb.TensorProto {
	raw := make([]byte, 0, 8*len(data))
	for _, v := range data {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return &onnxpb.TensorProto{Name: name, DataType: Int64, Dims: []int64{int64(len(data))}, RawData: raw}
}

// ScalarTensor is a constant without dimensions, rounded to a floating-point element type.
func ScalarTensor(name string, elem int32, v float64) (*onnxpb.TensorProto, error) {
	t := &onnxpb.TensorProto{Name: name, DataType: elem}
	switch onnxpb.TensorProto_DataType(elem) {
	case onnxpb.TensorProto_FLOAT:
		t.RawData = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v)))
	case onnxpb.TensorProto_DOUBLE:
		t.RawData = binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
	case onnxpb.TensorProto_FLOAT16:
		t.RawData = binary.LittleEndian.AppendUint16(nil, halfBits(v))
	case onnxpb.TensorProto_BFLOAT16:
		t.RawData = binary.LittleEndian.AppendUint16(nil, brainBits(v))
	default:
		return nil, fmt.Errorf("element type %s is not a floating-point type", ElemName(elem))
	}
	return t, nil
}

// ElemName is the format's name of an element type.
func ElemName(elem int32) string { return onnxpb.TensorProto_DataType(elem).String() }

// Int64s decodes a constant of type int64 with any number of dimensions, row-major.
func Int64s(t *onnxpb.TensorProto) ([]int64, error) {
	if err := wantElem(t, Int64); err != nil {
		return nil, err
	}
	out := slices.Clone(t.GetInt64Data())
	if raw, ok := rawValues(t, 8); ok {
		out = make([]int64, len(raw)/8)
		for i := range out {
			out[i] = int64(binary.LittleEndian.Uint64(raw[8*i:]))
		}
	}
	return out, wantCount(t, len(out))
}

// Float32s decodes a constant of type float32 with any number of dimensions, row-major.
func Float32s(t *onnxpb.TensorProto) ([]float32, error) {
	if err := wantElem(t, Float32); err != nil {
		return nil, err
	}
	out := slices.Clone(t.GetFloatData())
	if raw, ok := rawValues(t, 4); ok {
		out = make([]float32, len(raw)/4)
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	}
	return out, wantCount(t, len(out))
}

func wantElem(t *onnxpb.TensorProto, elem int32) error {
	if t.GetDataType() != elem {
		return fmt.Errorf("tensor %q has element type %s, want %s", t.GetName(), ElemName(t.GetDataType()), ElemName(elem))
	}
	if t.GetDataLocation() == onnxpb.TensorProto_EXTERNAL {
		return fmt.Errorf("tensor %q is stored in another file: save the model with its weights inside", t.GetName())
	}
	return nil
}

func rawValues(t *onnxpb.TensorProto, width int) ([]byte, bool) {
	raw := t.GetRawData()
	return raw, len(raw) > 0 && len(raw)%width == 0
}

func wantCount(t *onnxpb.TensorProto, got int) error {
	want := int64(1)
	for _, d := range t.GetDims() {
		if d < 0 || d > 0 && want > math.MaxInt32/d {
			return fmt.Errorf("tensor %q has dimensions %v", t.GetName(), t.GetDims())
		}
		want *= d
	}
	if int64(got) != want {
		return fmt.Errorf("tensor %q has dimensions %v, so %d values, found %d", t.GetName(), t.GetDims(), want, got)
	}
	return nil
}

// brainBits rounds to bfloat16, the upper half of a float32, ties to even.
func brainBits(v float64) uint16 {
	b := math.Float32bits(float32(v))
	if v != v {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// halfBits rounds to IEEE 754 binary16, ties to even: 1 sign bit, 5 exponent bits, 10 fraction bits.
func halfBits(v float64) uint16 {
	sign := uint16(math.Float64bits(v)>>48) & 0x8000
	a := math.Abs(v)
	switch {
	case v != v:
		return sign | 0x7e00
	case a >= 65520: // half way between the largest finite value and the next power of two
		return sign | 0x7c00
	case a < 0x1p-14: // subnormal: multiples of 2^-24; a carry gives the smallest normal number
		return sign | uint16(math.RoundToEven(a*0x1p24))
	}
	frac, exp := math.Frexp(a) // a = frac 2^exp with frac in [0.5, 1)
	return sign | uint16((exp+14)<<10+int(math.RoundToEven(frac*2048))-1024)
}
