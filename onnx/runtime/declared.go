package runtime

import (
	ort "github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// interfaceOf describes a model's inputs and outputs. The binding to ONNX Runtime finds them by loading the model a first
// time, with a thread for each core. A model that declares them all is read instead.
func interfaceOf(model []byte) (inputs, outputs []Value, err error) {
	if m := new(onnxpb.ModelProto); proto.Unmarshal(model, m) == nil {
		inputs, known := declared(m.GetGraph().GetInput(), m.GetGraph().GetInitializer())
		outputs, all := declared(m.GetGraph().GetOutput(), nil)
		if known && all {
			return inputs, outputs, nil
		}
	}
	in, out, err := ort.GetInputOutputInfoWithONNXData(model)
	return describe(in), describe(out), err
}

// declared describes values as the model states them, if it states all of their shapes and they are tensors. An
// initializer that is an input too is a default.
func declared(list []*onnxpb.ValueInfoProto, defaults []*onnxpb.TensorProto) ([]Value, bool) {
	constant := map[string]bool{}
	for _, t := range defaults {
		constant[t.GetName()] = true
	}
	values := []Value{}
	for _, v := range list {
		t := v.GetType().GetTensorType()
		name, ok := tensorTypes[t.GetElemType()]
		if !ok || t.GetShape() == nil {
			return nil, false
		}
		if constant[v.GetName()] {
			continue
		}
		shape := []int64{}
		for _, d := range t.GetShape().GetDim() {
			size := int64(-1)
			if d.GetDimParam() == "" && d.GetValue() != nil {
				size = d.GetDimValue()
			}
			shape = append(shape, size)
		}
		values = append(values, Value{Name: v.GetName(), Shape: shape, Type: name})
	}
	return values, true
}

// tensorTypes are the names of the element types that models have at their ends.
var tensorTypes = map[int32]string{
	int32(onnxpb.TensorProto_FLOAT): "float32", int32(onnxpb.TensorProto_DOUBLE): "float64",
	int32(onnxpb.TensorProto_INT64): "int64", int32(onnxpb.TensorProto_INT32): "int32", int32(onnxpb.TensorProto_UINT8): "uint8",
}
