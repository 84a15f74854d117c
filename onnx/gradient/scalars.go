package gradient

import (
	"encoding/binary"
	"math"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// The methods below read numbers that the file gives.

// float is a float attribute of the node, or its default.
func (c *Context) float(name string, def float32) float64 {
	return float64(ir.AttrFloat(c.Node, name, def))
}

// number is the value of a constant with one element; false where the value is computed or fed.
func (c *Context) number(name string) (float64, bool) {
	if name == "" || !c.walk.constant[name] {
		return 0, false
	}
	if n := c.walk.makers[name]; n != nil {
		switch {
		case ir.Attr(n, "value_float") != nil:
			return float64(ir.AttrFloat(n, "value_float", 0)), true
		case ir.Attr(n, "value_int") != nil:
			return float64(ir.AttrInt(n, "value_int", 0)), true
		}
		return oneNumber(ir.Attr(n, "value").GetT())
	}
	for _, t := range c.g.Model.Graph.Initializer {
		if t.GetName() == name {
			return oneNumber(t)
		}
	}
	return 0, false
}

func oneNumber(t *onnxpb.TensorProto) (float64, bool) {
	if n, ok := product(tensorType(t).Shape); t == nil || !ok || n != 1 || t.GetDataLocation() == onnxpb.TensorProto_EXTERNAL {
		return 0, false
	}
	raw := make([]byte, 8)
	copy(raw, t.GetRawData())
	bits := binary.LittleEndian.Uint64(raw)
	packed := len(t.GetRawData()) > 0
	switch t.GetDataType() {
	case ir.Float32:
		return pick(packed, float64(math.Float32frombits(uint32(bits))), t.GetFloatData())
	case ir.Float64:
		return pick(packed, math.Float64frombits(bits), t.GetDoubleData())
	case ir.Int64:
		return pick(packed, float64(int64(bits)), t.GetInt64Data())
	case int32(onnxpb.TensorProto_INT32):
		return pick(packed, float64(int32(bits)), t.GetInt32Data())
	case int32(onnxpb.TensorProto_BOOL):
		return pick(packed, float64(uint8(bits)), t.GetInt32Data())
	case int32(onnxpb.TensorProto_FLOAT16):
		if !packed && len(t.GetInt32Data()) == 1 {
			bits, packed = uint64(t.GetInt32Data()[0]), true
		}
		return fromHalf(uint16(bits)), packed
	}
	return 0, false
}

// pick is the number in a tensor's raw bytes, or else that in its typed field.
func pick[T int32 | int64 | float32 | float64](packed bool, raw float64, typed []T) (float64, bool) {
	if packed || len(typed) != 1 {
		return raw, packed
	}
	return float64(typed[0]), true
}

// fromHalf decodes IEEE 754 binary16: 1 sign bit, 5 exponent bits, 10 fraction bits.
func fromHalf(b uint16) float64 {
	exp, frac := int(b>>10&31), float64(b&1023)
	v := math.Ldexp(1024+frac, exp-25)
	switch {
	case exp == 0:
		v = math.Ldexp(frac, -24)
	case exp == 31 && frac == 0:
		v = math.Inf(1)
	case exp == 31:
		v = math.NaN()
	}
	if b&0x8000 != 0 {
		return -v
	}
	return v
}
