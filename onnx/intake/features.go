package intake

import (
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Head is the dense layer that makes logits of features: logits = features Weight^T + Bias.
type Head struct {
	Weight      []float32 // [Outputs, F], row-major
	Bias        []float32 // [Outputs], zeros where the layer has none
	Outputs, In int
}

// findFeatures chooses the value of the features: the named one, else the input of the last dense layer.
func (a *adapter) findFeatures() error {
	found, head := a.lastLayer()
	a.features, a.c.Head = found, head
	if a.cfg.Features == "" {
		return nil
	}
	a.features = a.value(a.cfg.Features)
	if a.constant(a.features) != nil {
		return fmt.Errorf("value %q for the features is a constant", a.cfg.Features)
	}
	if !a.known(a.features) {
		return fmt.Errorf("the model has no value %q for the features: look for the name of one in a viewer of ONNX graphs", a.cfg.Features)
	}
	if a.features != found {
		a.c.Head = nil
	}
	return nil
}

// lastLayer finds the input of the last dense layer, if between that and the logits nothing happens but moving values
// and adding constants.
func (a *adapter) lastLayer() (input string, head *Head) {
	var bias string
	for n := a.maker(a.logits); n != nil && len(n.GetInput()) > 0 && ir.IsStandard(n.GetDomain()); {
		switch n.GetOpType() {
		case "Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Cast":
			n = a.maker(n.Input[0])
		case "Add":
			at := slices.IndexFunc(n.Input, func(in string) bool { return a.constant(in) == nil })
			if at < 0 || bias != "" || len(n.Input) != 2 || a.constant(n.Input[1-at]) == nil {
				return "", nil
			}
			bias = n.Input[1-at]
			n = a.maker(n.Input[at])
		case "Gemm", "MatMul":
			if len(n.Input) < 2 || a.maker(n.Input[0]) == nil || n.Input[0] == a.c.Space || a.constant(n.Input[0]) != nil {
				return "", nil
			}
			return n.Input[0], a.head(n, bias)
		default:
			return "", nil
		}
	}
	return "", nil
}

// head reads the weights of a dense layer; nil where they are not in the file.
func (a *adapter) head(n *onnxpb.NodeProto, bias string) *Head {
	w := a.constant(n.Input[1])
	if w == nil || len(w.GetDims()) != 2 || ir.AttrInt(n, "transA", 0) != 0 ||
		ir.AttrFloat(n, "alpha", 1) != 1 || ir.AttrFloat(n, "beta", 1) != 1 {
		return nil
	}
	if n.GetOpType() == "Gemm" && len(n.Input) > 2 && n.Input[2] != "" {
		if bias != "" {
			return nil
		}
		bias = n.Input[2]
	}
	values, err := ir.Floats(w)
	if err != nil {
		return nil
	}
	h := &Head{In: int(w.Dims[0]), Outputs: int(w.Dims[1])}
	transposed := ir.AttrInt(n, "transB", 0) != 0
	if transposed {
		h.In, h.Outputs = h.Outputs, h.In
	}
	h.Weight, h.Bias = make([]float32, len(values)), make([]float32, h.Outputs)
	for o := range h.Outputs {
		for i := range h.In {
			at := i*h.Outputs + o
			if transposed {
				at = o*h.In + i
			}
			h.Weight[o*h.In+i] = float32(values[at])
		}
	}
	if bias == "" {
		return h
	}
	b, err := ir.Floats(a.constant(bias))
	if err != nil || len(b) != 1 && len(b) != h.Outputs {
		return nil
	}
	for o := range h.Bias {
		h.Bias[o] = float32(b[o%len(b)])
	}
	return h
}

// constant is the tensor that a value has in every run, through nodes that only move or cast it; nil where it has none.
func (a *adapter) constant(name string) *onnxpb.TensorProto {
	for _, t := range a.m.Graph.Initializer {
		if t.GetName() == name {
			return t
		}
	}
	n := a.maker(name)
	if n == nil || !ir.IsStandard(n.GetDomain()) {
		return nil
	}
	if n.GetOpType() == "Constant" {
		return ir.Attr(n, "value").GetT()
	}
	if len(n.GetInput()) == 0 {
		return nil
	}
	switch n.GetOpType() {
	case "Identity":
		return a.constant(n.Input[0])
	case "Cast":
		if t := a.constant(n.Input[0]); ir.IsFloat(t.GetDataType()) && ir.IsFloat(int32(ir.AttrInt(n, "to", 0))) {
			return t
		}
	case "Transpose":
		if perm := ir.AttrInts(n, "perm"); len(perm) == 0 || slices.Equal(perm, []int64{1, 0}) {
			return transposed(a.constant(n.Input[0]))
		}
	case "Reshape":
		if len(n.Input) == 2 {
			return reshaped(a.constant(n.Input[0]), a.constant(n.Input[1]))
		}
	}
	return nil
}

// transposed is a matrix with rows and columns exchanged; nil where a constant is none.
func transposed(t *onnxpb.TensorProto) *onnxpb.TensorProto {
	if len(t.GetDims()) != 2 {
		return nil
	}
	values, err := ir.Floats(t)
	if err != nil {
		return nil
	}
	rows, columns := int(t.Dims[0]), int(t.Dims[1])
	out := make([]float64, len(values))
	for i, v := range values {
		out[i%columns*rows+i/columns] = v
	}
	return ir.Float64Tensor(t.Name, []int64{int64(columns), int64(rows)}, out)
}

// reshaped is a constant with the shape that another one lists.
func reshaped(t, shape *onnxpb.TensorProto) *onnxpb.TensorProto {
	if t == nil || shape == nil {
		return nil
	}
	dims, err := ir.Int64s(shape)
	if err != nil || slices.ContainsFunc(dims, func(d int64) bool { return d < 1 }) {
		return nil
	}
	return &onnxpb.TensorProto{Name: t.Name, DataType: t.DataType, Dims: dims, RawData: t.RawData, FloatData: t.FloatData,
		Int32Data: t.Int32Data, DoubleData: t.DoubleData, DataLocation: t.DataLocation}
}
