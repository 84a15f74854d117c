package ir

import "github.com/jempipe/jempipe/onnx/ir/onnxpb"

// Dim is one dimension of a shape: a number, or a name that stands for any number, or neither where nothing is known.
type Dim struct {
	Size int64  // 0 and more, when Name is empty and Known is set
	Name string // two dimensions of a graph with one name have one size
	Set  bool   // Size is known
}

// Fixed is a dimension of known size.
func Fixed(n int64) Dim { return Dim{Size: n, Set: true} }

// Free is a dimension that has a name and any size.
func Free(name string) Dim { return Dim{Name: name} }

// Is says whether a dimension is known to have a size.
func (d Dim) Is(n int64) bool { return d.Set && d.Size == n }

// Same says whether two dimensions are known to be equal.
func (d Dim) Same(e Dim) bool {
	return d.Set && e.Set && d.Size == e.Size || !d.Set && !e.Set && d.Name != "" && d.Name == e.Name
}

// FixedDims are dimensions of known sizes.
func FixedDims(sizes ...int64) []Dim {
	out := make([]Dim, len(sizes))
	for i, n := range sizes {
		out[i] = Fixed(n)
	}
	return out
}

// ValueInfo describes a tensor.
func ValueInfo(name string, elem int32, shape ...Dim) *onnxpb.ValueInfoProto {
	dims := make([]*onnxpb.TensorShapeProto_Dimension, len(shape))
	for i, d := range shape {
		dims[i] = &onnxpb.TensorShapeProto_Dimension{}
		switch {
		case d.Set:
			dims[i].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: d.Size}
		case d.Name != "":
			dims[i].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: d.Name}
		}
	}
	t := &onnxpb.TypeProto_Tensor{ElemType: elem, Shape: &onnxpb.TensorShapeProto{Dim: dims}}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
}

// TensorType gives the element type and shape of a value. elem is 0 where the value is no tensor or its type is not
// stated; ranked is false where the number of dimensions is not stated.
func TensorType(v *onnxpb.ValueInfoProto) (elem int32, shape []Dim, ranked bool) {
	t := v.GetType().GetTensorType()
	if t.GetShape() == nil {
		return t.GetElemType(), nil, false
	}
	shape = make([]Dim, len(t.GetShape().GetDim()))
	for i, d := range t.GetShape().GetDim() {
		switch x := d.GetValue().(type) {
		case *onnxpb.TensorShapeProto_Dimension_DimValue:
			if x.DimValue >= 0 { // some exporters write -1 for a free dimension
				shape[i] = Fixed(x.DimValue)
			}
		case *onnxpb.TensorShapeProto_Dimension_DimParam:
			shape[i] = Free(x.DimParam)
		}
	}
	return t.GetElemType(), shape, true
}
