package gradient

import (
	"fmt"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// floats is a constant of some shape that has the element type of a value.
func (c *Context) floats(like string, shape []int64, data []float64) string {
	elem := c.types[like].Elem
	if elem == 0 {
		return c.Scalar(like, 0) // reports that the element type is not known
	}
	t := &onnxpb.TensorProto{Name: "const_window", DataType: elem, Dims: shape}
	for _, v := range data {
		one, err := ir.ScalarTensor("", elem, v)
		if err != nil {
			c.fail(fmt.Errorf("value %q: %w", like, err))
			return ""
		}
		t.RawData = append(t.RawData, one.RawData...)
	}
	return c.Const(t)
}
