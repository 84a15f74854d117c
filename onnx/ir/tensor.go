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
