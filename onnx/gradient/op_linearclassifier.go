package gradient

import (
	"errors"
	"fmt"

	"github.com/jempipe/jempipe/onnx/ir"
)

// linearRegressorGradient: y = f(x W^T + b) with the coefficients W, a row for each target, so x gets (dy f') W.
func linearRegressorGradient(c *Context) error {
	return c.unlinear(0, ir.AttrInt(c.Node, "targets", 1))
}

// linearClassifierGradient: the scores are a linear regression with one target for each class; the labels carry no
// gradient.
func linearClassifierGradient(c *Context) error {
	if !c.HasGrad(1) {
		return nil
	}
	classes := c.classes()
	if rows := int64(len(ir.Attr(c.Node, "intercepts").GetFloats())); rows == 1 && classes > 1 {
		return errors.New("it cannot be differentiated: it has one row of coefficients for two classes: export the model with a row for each class, as skl2onnx does, or as standard operators")
	}
	return c.unlinear(1, classes)
}

func (s *Site) classes() int64 {
	if labels := ir.AttrInts(s.Node, "classlabels_ints"); len(labels) > 0 {
		return int64(len(labels))
	}
	return int64(len(ir.Attr(s.Node, "classlabels_strings").GetStrings()))
}

func (c *Context) unlinear(output int, rows int64) error {
	weights := ir.Attr(c.Node, "coefficients").GetFloats()
	if rows < 1 || len(weights) == 0 || int64(len(weights))%rows != 0 {
		return fmt.Errorf("its %d coefficients are no matrix of %d rows", len(weights), rows)
	}
	y, dy := c.Out(output), c.Grad(output)
	switch post := ir.AttrString(c.Node, "post_transform", "NONE"); post {
	case "NONE":
	case "LOGISTIC":
		dy = c.Op("Mul", dy, c.Op("Mul", y, c.Op("Sub", c.Scalar(y, 1), y)))
	case "SOFTMAX":
		weighted := c.Op("Mul", dy, y)
		dy = c.Op("Sub", weighted, c.Op("Mul", y, c.ReduceSum(weighted, []int64{1}, true)))
	default:
		return fmt.Errorf(`it cannot be differentiated: its post_transform is %q, supported are "NONE", "LOGISTIC" and "SOFTMAX"`, post)
	}
	matrix := c.Const(ir.Float32Tensor("const_floats", []int64{rows, int64(len(weights)) / rows}, weights))
	dx := c.Op("MatMul", dy, matrix)
	if t := c.Type(0); t.Ranked && len(t.Shape) != 2 {
		dx = c.ReshapeLike(dx, c.In(0))
	}
	c.setConverted(0, dx)
	return nil
}

func inferLinearRegressor(s *Site) []Type {
	return []Type{s.perRow(ir.AttrInt(s.Node, "targets", 1))}
}

func inferLinearClassifier(s *Site) []Type {
	scores := s.perRow(s.classes())
	labels := Type{Elem: ir.Int64, Shape: scores.Shape[:1], Ranked: true}
	if len(ir.AttrInts(s.Node, "classlabels_ints")) == 0 {
		labels.Elem = stringType
	}
	return []Type{labels, scores}
}

const stringType = 8 // TensorProto.STRING

// perRow is a matrix with a row for each row of input 0.
func (s *Site) perRow(columns int64) Type {
	out := Type{Elem: ir.Float32, Shape: []ir.Dim{{}, ir.Fixed(max(columns, 0))}, Ranked: true}
	switch x := s.Type(0); {
	case x.Ranked && len(x.Shape) == 1:
		out.Shape[0] = ir.Fixed(1)
	case x.Ranked && len(x.Shape) == 2:
		out.Shape[0] = x.Shape[0]
	}
	return out
}

// inferOneHotEncoder adds an axis with a place for each category.
func inferOneHotEncoder(s *Site) []Type {
	x := s.Type(0)
	count := len(ir.AttrInts(s.Node, "cats_int64s")) + len(ir.Attr(s.Node, "cats_strings").GetStrings())
	if !x.Ranked {
		return []Type{{Elem: ir.Float32}}
	}
	return []Type{{Elem: ir.Float32, Shape: append(append([]ir.Dim{}, x.Shape...), ir.Fixed(int64(count))), Ranked: true}}
}
