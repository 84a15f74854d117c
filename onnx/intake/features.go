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

// findFeatures chooses the value of the features: the named one, else the input of the last dense layer, if between it
// and the logits nothing happens but moving values and adding constants.
func (a *adapter) findFeatures() error {
	if a.cfg.Features != "" {
		a.features = a.value(a.cfg.Features)
		if !a.known(a.features) {
			return fmt.Errorf("the model has no value %q for the features", a.cfg.Features)
		}
		return nil
	}
	var bias string
	for n := a.maker(a.logits); n != nil; {
		switch n.GetOpType() {
		case "Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Cast":
			n = a.maker(n.Input[0])
		case "Add":
			at := slices.IndexFunc(n.Input, func(in string) bool { return a.constant(in) == nil })
			if at < 0 || bias != "" {
				return nil
			}
			bias = n.Input[1-at]
			if a.constant(bias) == nil {
				return nil
			}
			n = a.maker(n.Input[at])
		case "Gemm", "MatMul":
			if a.maker(n.Input[0]) != nil {
				a.features = n.Input[0]
				a.c.Head = a.head(n, bias)
			}
			return nil
		default:
			return nil
		}
	}
	return nil
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

// constant is the tensor that a value has in every run, through nodes that only reshape it; nil where it has none.
func (a *adapter) constant(name string) *onnxpb.TensorProto {
	for _, t := range a.m.Graph.Initializer {
		if t.GetName() == name {
			return t
		}
	}
	n := a.maker(name)
	switch {
	case n == nil:
		return nil
	case n.GetOpType() == "Constant":
		return ir.Attr(n, "value").GetT()
	case n.GetOpType() == "Identity":
		return a.constant(n.Input[0])
	case n.GetOpType() == "Reshape" && len(n.Input) == 2:
		return reshaped(a.constant(n.Input[0]), a.constant(n.Input[1]))
	}
	return nil
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
