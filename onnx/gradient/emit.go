package gradient

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// The methods below write one operation in the form that the model's operator set knows.

// ReduceSum sums over axes, which count from the start.
func (c *Context) ReduceSum(x string, axes []int64, keep bool) string {
	if len(axes) == 0 {
		return x
	}
	keepdims := ir.Int("keepdims", 0)
	if keep {
		keepdims.I = 1
	}
	if c.opset < 13 {
		return c.OpWith("ReduceSum", []string{x}, ir.Ints("axes", axes...), keepdims)
	}
	return c.OpWith("ReduceSum", []string{x, c.List(axes...)}, keepdims)
}

// Squeeze removes axes of size 1.
func (c *Context) Squeeze(x string, axes []int64) string { return c.withAxes("Squeeze", x, axes) }

// Unsqueeze inserts axes of size 1; axes are positions in the result.
func (c *Context) Unsqueeze(x string, axes []int64) string { return c.withAxes("Unsqueeze", x, axes) }

func (c *Context) withAxes(op, x string, axes []int64) string {
	if len(axes) == 0 {
		return x
	}
	if c.opset < 13 {
		return c.OpWith(op, []string{x}, ir.Ints("axes", axes...))
	}
	return c.Op(op, x, c.List(axes...))
}

// Slice cuts [start, end) out of each of the axes.
func (c *Context) Slice(x string, starts, ends, axes []int64) string {
	if c.opset < 10 {
		return c.OpWith("Slice", []string{x}, ir.Ints("starts", starts...), ir.Ints("ends", ends...), ir.Ints("axes", axes...))
	}
	return c.Op("Slice", x, c.List(starts...), c.List(ends...), c.List(axes...))
}

// Pad puts zeros around a value; before and after have one number an axis.
func (c *Context) Pad(x string, before, after []int64) string {
	pads := slices.Concat(before, after)
	if !slices.ContainsFunc(pads, func(p int64) bool { return p != 0 }) {
		return x
	}
	if c.opset < 11 {
		return c.OpWith("Pad", []string{x}, ir.Ints("pads", pads...))
	}
	return c.Op("Pad", x, c.List(pads...))
}

// Transpose permutes the axes.
func (c *Context) Transpose(x string, perm ...int64) string {
	return c.OpWith("Transpose", []string{x}, ir.Ints("perm", perm...))
}

// SwapLast exchanges the last two axes of a value of known rank.
func (c *Context) SwapLast(x string) string {
	rank := c.Rank(x)
	if rank < 2 {
		return x
	}
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[rank-1], perm[rank-2] = perm[rank-2], perm[rank-1]
	return c.Transpose(x, perm...)
}

// ShapeOf is the shape of a value as a list: a constant where it is known.
func (c *Context) ShapeOf(name string) string {
	if sizes, ok := c.types[name].Static(); ok {
		return c.List(sizes...)
	}
	return c.Op("Shape", name)
}

// ReshapeLike gives a value the shape of another one with as many elements.
func (c *Context) ReshapeLike(x, like string) string {
	from, to := c.types[x], c.types[like]
	if sizes, ok := copyLeading(from, to); ok {
		return c.Op("Reshape", x, c.List(sizes...))
	}
	return c.typedLike(c.Op("Reshape", x, c.ShapeOf(like)), like)
}

// typedLike notes that a value has the shape of another one, where that follows from no constant.
func (c *Context) typedLike(name, like string) string {
	c.types[name] = merge(c.types[like].withElem(c.types[name].Elem), c.types[name])
	return name
}

// copyLeading writes a target shape with 0, which Reshape reads as "the size of the source's axis at this place", for
// leading axes of unknown size that both have, such as the batch axis.
func copyLeading(from, to Type) ([]int64, bool) {
	if !from.Ranked || !to.Ranked {
		return nil, false
	}
	out := make([]int64, len(to.Shape))
	for i, d := range to.Shape {
		switch {
		case d.Set && d.Size > 0:
			out[i] = d.Size
		case !d.Set && i < len(from.Shape) && d.Same(from.Shape[i]):
			out[i] = 0
		default:
			return nil, false
		}
	}
	return out, true
}

// ExpandLike repeats a value to the shape of another one.
func (c *Context) ExpandLike(x, like string) string {
	c.wantOpset(8, "repeating a value along an axis")
	return c.Op("Expand", x, c.ShapeOf(like))
}

// fill is a tensor with the shape of a value and one number in every place.
func (c *Context) fill(like string, v float64) string {
	if t := c.types[like]; t.Ranked && len(t.Shape) == 0 {
		return c.Scalar(like, v)
	}
	return c.typedLike(c.ExpandLike(c.Scalar(like, v), like), like)
}

// reduceTo sums a value over the axes along which an input was repeated when it was broadcast to the value's shape.
func (c *Context) reduceTo(x, like string) string {
	from, to := c.types[x], c.types[like]
	if !from.Ranked || !to.Ranked || len(to.Shape) > len(from.Shape) {
		return c.reduceDynamic(x, like)
	}
	lead := len(from.Shape) - len(to.Shape)
	var drop, sum []int64
	for i, d := range from.Shape {
		switch {
		case i < lead:
			drop = append(drop, int64(i))
		case to.Shape[i-lead].Is(1):
			if !d.Is(1) {
				sum = append(sum, int64(i))
			}
		case to.Shape[i-lead].Set, to.Shape[i-lead].Same(d):
		default:
			return c.reduceDynamic(x, like)
		}
	}
	if len(sum) == 0 {
		return c.ReduceSum(x, drop, false)
	}
	return c.Squeeze(c.ReduceSum(x, slices.Concat(drop, sum), true), drop)
}

// reduceDynamic does the same for shapes that are known only when the graph runs: the axes are those where the shape
// of the input, filled up with ones in front, is 1.
func (c *Context) reduceDynamic(x, like string) string {
	c.wantOpset(13, "summing over axes that are known only when the graph runs")
	shape := c.Op("Shape", like)
	missing := c.Op("Sub", c.Op("Shape", c.Op("Shape", x)), c.Op("Shape", shape))
	ones := c.OpWith("ConstantOfShape", []string{missing}, ir.TensorAttr("value", ir.Int64Tensor("", 1)))
	full := c.OpWith("Concat", []string{ones, shape}, ir.Int("axis", 0))
	axes := c.Squeeze(c.Op("NonZero", c.Op("Equal", full, c.List(1))), []int64{0})
	// Without the attribute an empty list of axes would mean all of them.
	sum := c.OpWith("ReduceSum", []string{x, axes}, ir.Int("keepdims", 1), ir.Int("noop_with_empty_axes", 1))
	return c.Op("Reshape", sum, shape)
}

// castLike converts a value to the floating-point type of another one.
func (c *Context) castLike(x, like string) string {
	elem := c.types[like].Elem
	if elem == 0 {
		return c.Scalar(like, 0) // reports that the element type is not known
	}
	return c.OpWith("Cast", []string{x}, ir.Int("to", int64(elem)))
}

func sorted(axes []int64) []int64 {
	out := slices.Clone(axes)
	slices.Sort(out)
	return out
}

// nodeKey tells two nodes apart that do not compute the same.
func nodeKey(op string, inputs []string, attrs []*onnxpb.AttributeProto) string {
	sorted := slices.SortedFunc(slices.Values(attrs), func(a, b *onnxpb.AttributeProto) int { return strings.Compare(a.GetName(), b.GetName()) })
	key := fmt.Sprintf("%s %q", op, inputs)
	for _, a := range sorted {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
		if err != nil {
			data = []byte(a.String())
		}
		key += string(data)
	}
	return key
}
