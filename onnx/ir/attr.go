package ir

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Int is an integer attribute.
func Int(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: v}
}

// Ints is an attribute that is a list of integers.
func Ints(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INTS, Ints: slices.Clone(v)}
}

// Float is a float attribute.
func Float(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOAT, F: v}
}

// String is a string attribute.
func String(name, v string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_STRING, S: []byte(v)}
}

// TensorAttr is an attribute that is a constant tensor.
func TensorAttr(name string, t *onnxpb.TensorProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_TENSOR, T: t}
}

// GraphAttr is an attribute that is a graph, such as the body of a loop.
func GraphAttr(name string, g *onnxpb.GraphProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH, G: g}
}

// Attr gives the attribute of a name; nil where the node has none.
func Attr(n *onnxpb.NodeProto, name string) *onnxpb.AttributeProto {
	for _, a := range n.GetAttribute() {
		if a.GetName() == name {
			return a
		}
	}
	return nil
}

// AttrInt gives an integer attribute, or def where the node has none.
func AttrInt(n *onnxpb.NodeProto, name string, def int64) int64 {
	if a := Attr(n, name); a != nil {
		return a.GetI()
	}
	return def
}

// AttrInts gives a list attribute; nil where the node has none.
func AttrInts(n *onnxpb.NodeProto, name string) []int64 {
	return Attr(n, name).GetInts()
}

// AttrFloat gives a float attribute, or def where the node has none.
func AttrFloat(n *onnxpb.NodeProto, name string, def float32) float32 {
	if a := Attr(n, name); a != nil {
		return a.GetF()
	}
	return def
}

// AttrString gives a string attribute, or def where the node has none.
func AttrString(n *onnxpb.NodeProto, name, def string) string {
	if a := Attr(n, name); a != nil {
		return string(a.GetS())
	}
	return def
}

// Subgraphs lists the graphs that a node carries as attributes, in attribute order.
func Subgraphs(n *onnxpb.NodeProto) []*onnxpb.GraphProto {
	var out []*onnxpb.GraphProto
	for _, a := range n.GetAttribute() {
		if a.GetG() != nil {
			out = append(out, a.GetG())
		}
		out = append(out, a.GetGraphs()...)
	}
	return out
}
