package gradient

import (
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

// oneNumber is the value of a constant with one element.
func oneNumber(t *onnxpb.TensorProto) (float64, bool) {
	if n, ok := product(tensorType(t).Shape); t == nil || !ok || n != 1 || t.GetDataLocation() == onnxpb.TensorProto_EXTERNAL {
		return 0, false
	}
	if ir.IsFloat(t.GetDataType()) {
		v, err := ir.Floats(t)
		if err != nil {
			return 0, false
		}
		return v[0], true
	}
	v, err := ir.Integers(t)
	if err != nil {
		return 0, false
	}
	return float64(v[0]), true
}
