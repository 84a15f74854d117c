package ir

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Int64s decodes a constant of type int64 with any number of dimensions, row-major.
func Int64s(t *onnxpb.TensorProto) ([]int64, error) {
	if err := wantElem(t, Int64); err != nil {
		return nil, err
	}
	return decode(t, 8, t.GetInt64Data(), same, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) })
}

// Float32s decodes a constant of type float32 with any number of dimensions, row-major.
func Float32s(t *onnxpb.TensorProto) ([]float32, error) {
	if err := wantElem(t, Float32); err != nil {
		return nil, err
	}
	return decode(t, 4, t.GetFloatData(), same, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
}

// Floats decodes a constant of any floating-point type that IsFloat knows, row-major; float64 holds all their values.
func Floats(t *onnxpb.TensorProto) ([]float64, error) {
	if err := wantInside(t); err != nil {
		return nil, err
	}
	switch onnxpb.TensorProto_DataType(t.GetDataType()) {
	case onnxpb.TensorProto_FLOAT:
		return decode(t, 4, t.GetFloatData(), func(v float32) float64 { return float64(v) },
			func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) })
	case onnxpb.TensorProto_DOUBLE:
		return decode(t, 8, t.GetDoubleData(), same, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
	case onnxpb.TensorProto_FLOAT16:
		return decode(t, 2, t.GetInt32Data(), func(v int32) float64 { return fromHalf(uint16(v)) },
			func(b []byte) float64 { return fromHalf(binary.LittleEndian.Uint16(b)) })
	case onnxpb.TensorProto_BFLOAT16:
		return decode(t, 2, t.GetInt32Data(), func(v int32) float64 { return fromBrain(uint16(v)) },
			func(b []byte) float64 { return fromBrain(binary.LittleEndian.Uint16(b)) })
	}
	return nil, fmt.Errorf("tensor %q has element type %s, want a floating-point type", t.GetName(), ElemName(t.GetDataType()))
}

// Integers decodes a constant of integers of 8 to 64 bits or of booleans (0 and 1), row-major.
func Integers(t *onnxpb.TensorProto) ([]int64, error) {
	if err := wantInside(t); err != nil {
		return nil, err
	}
	narrow := func(width int, cast func(uint64) int64) ([]int64, error) {
		return decode(t, width, t.GetInt32Data(), func(v int32) int64 { return cast(uint64(v)) },
			func(b []byte) int64 { return cast(littleEndian(b)) })
	}
	switch onnxpb.TensorProto_DataType(t.GetDataType()) {
	case onnxpb.TensorProto_INT64:
		return Int64s(t)
	case onnxpb.TensorProto_INT32:
		return narrow(4, func(v uint64) int64 { return int64(int32(v)) })
	case onnxpb.TensorProto_INT16:
		return narrow(2, func(v uint64) int64 { return int64(int16(v)) })
	case onnxpb.TensorProto_UINT16:
		return narrow(2, func(v uint64) int64 { return int64(uint16(v)) })
	case onnxpb.TensorProto_INT8:
		return narrow(1, func(v uint64) int64 { return int64(int8(v)) })
	case onnxpb.TensorProto_UINT8:
		return narrow(1, func(v uint64) int64 { return int64(uint8(v)) })
	case onnxpb.TensorProto_BOOL:
		return narrow(1, func(v uint64) int64 { return int64(min(v&0xff, 1)) })
	case onnxpb.TensorProto_UINT32:
		return decode(t, 4, t.GetUint64Data(), func(v uint64) int64 { return int64(uint32(v)) }, func(b []byte) int64 { return int64(littleEndian(b)) })
	case onnxpb.TensorProto_UINT64:
		out, err := decode(t, 8, t.GetUint64Data(), func(v uint64) int64 { return int64(v) }, func(b []byte) int64 { return int64(littleEndian(b)) })
		for _, v := range out {
			if v < 0 {
				return nil, fmt.Errorf("tensor %q holds %d, more than int64 can", t.GetName(), uint64(v))
			}
		}
		return out, err
	}
	return nil, fmt.Errorf("tensor %q has element type %s, want integers or booleans", t.GetName(), ElemName(t.GetDataType()))
}

// decode takes the values from raw_data where it has any, else from the list of the type. width is in bytes.
func decode[L, V any](t *onnxpb.TensorProto, width int, list []L, convert func(L) V, read func([]byte) V) ([]V, error) {
	raw := t.GetRawData()
	found := len(list)
	if len(raw) > 0 {
		if len(raw)%width != 0 {
			return nil, fmt.Errorf("tensor %q has %d bytes, no multiple of the %d bytes of its element type %s",
				t.GetName(), len(raw), width, ElemName(t.GetDataType()))
		}
		found = len(raw) / width
	}
	if want, ok := Elements(t.GetDims()); !ok {
		return nil, fmt.Errorf("tensor %q has dimensions %v", t.GetName(), t.GetDims())
	} else if int64(found) != want {
		return nil, fmt.Errorf("tensor %q has dimensions %v, so %d values, found %d", t.GetName(), t.GetDims(), want, found)
	}
	out := make([]V, found)
	for i := range out {
		if len(raw) > 0 {
			out[i] = read(raw[i*width : (i+1)*width])
		} else {
			out[i] = convert(list[i])
		}
	}
	return out, nil
}

func same[V any](v V) V { return v }

func littleEndian(b []byte) (v uint64) {
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	return v
}

// Elements is the number of values of a shape; false where a dimension is negative or the number is beyond what a
// model file can hold.
func Elements(dims []int64) (int64, bool) {
	n := int64(1)
	for _, d := range dims {
		if d == 0 {
			n = 0
		}
	}
	for _, d := range dims {
		if d < 0 || n > 0 && n > math.MaxInt32*8/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// elemBits is the size of one value in raw_data, where several values narrower than a byte share one; 0 for strings
// and types that are not known.
func elemBits(elem int32) int64 {
	switch onnxpb.TensorProto_DataType(elem) {
	case onnxpb.TensorProto_UINT2, onnxpb.TensorProto_INT2:
		return 2
	case onnxpb.TensorProto_UINT4, onnxpb.TensorProto_INT4, onnxpb.TensorProto_FLOAT4E2M1:
		return 4
	case onnxpb.TensorProto_UINT8, onnxpb.TensorProto_INT8, onnxpb.TensorProto_BOOL, onnxpb.TensorProto_FLOAT8E4M3FN,
		onnxpb.TensorProto_FLOAT8E4M3FNUZ, onnxpb.TensorProto_FLOAT8E5M2, onnxpb.TensorProto_FLOAT8E5M2FNUZ, onnxpb.TensorProto_FLOAT8E8M0:
		return 8
	case onnxpb.TensorProto_UINT16, onnxpb.TensorProto_INT16, onnxpb.TensorProto_FLOAT16, onnxpb.TensorProto_BFLOAT16:
		return 16
	case onnxpb.TensorProto_FLOAT, onnxpb.TensorProto_INT32, onnxpb.TensorProto_UINT32:
		return 32
	case onnxpb.TensorProto_DOUBLE, onnxpb.TensorProto_INT64, onnxpb.TensorProto_UINT64, onnxpb.TensorProto_COMPLEX64:
		return 64
	case onnxpb.TensorProto_COMPLEX128:
		return 128
	}
	return 0
}

func wantElem(t *onnxpb.TensorProto, elem int32) error {
	if t.GetDataType() != elem {
		return fmt.Errorf("tensor %q has element type %s, want %s", t.GetName(), ElemName(t.GetDataType()), ElemName(elem))
	}
	return wantInside(t)
}

func wantInside(t *onnxpb.TensorProto) error {
	if t.GetDataLocation() == onnxpb.TensorProto_EXTERNAL {
		return fmt.Errorf("tensor %q is stored in another file: save the model with its weights inside", t.GetName())
	}
	return nil
}

// fromHalf is the value of an IEEE 754 binary16 bit pattern.
func fromHalf(b uint16) float64 {
	sign := 1.0
	if b&0x8000 != 0 {
		sign = -1
	}
	exp, frac := int(b>>10&0x1f), float64(b&0x3ff)
	switch {
	case exp == 0x1f && frac != 0:
		return math.NaN()
	case exp == 0x1f:
		return sign * math.Inf(1)
	case exp == 0:
		return sign * frac * 0x1p-24
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// fromBrain is the value of a bfloat16 bit pattern, the upper half of a float32.
func fromBrain(b uint16) float64 { return float64(math.Float32frombits(uint32(b) << 16)) }
