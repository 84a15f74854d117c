package gradient

import (
	"fmt"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Context is what a rule works with: the node, the gradients of its outputs, and the means to add nodes.
// The first failure of a method is kept and reported by the walk, so rules need not check each step.
type Context struct {
	Site
	g     *ir.Graph
	walk  *walk
	grads []cotangent // of the outputs
	ones  []string    // uniform gradients of the outputs written out in full, by output
	err   error
}

// cotangent is the gradient of a value: a tensor of the graph, or one number for every element, which needs none.
type cotangent struct {
	name    string
	uniform bool
	value   float64
}

func (c cotangent) exists() bool { return c.uniform || c.name != "" }

func (c *Context) fail(err error) {
	if c.err == nil && err != nil {
		c.err = err
	}
}

// Needs says whether the gradient of an input is wanted.
func (c *Context) Needs(i int) bool { return c.walk.depends[c.In(i)] }

// HasGrad says whether a gradient reaches an output.
func (c *Context) HasGrad(i int) bool { return i < len(c.grads) && c.grads[i].exists() }

// Uniform gives the gradient of an output where it is one number for every element, as at the readout.
func (c *Context) Uniform(i int) (float64, bool) { return c.grads[i].value, c.grads[i].uniform }

// Grad is the name of the gradient of an output, which has the output's shape.
func (c *Context) Grad(i int) string {
	if !c.grads[i].uniform {
		return c.grads[i].name
	}
	if c.ones[i] == "" {
		c.ones[i] = c.fill(c.Out(i), c.grads[i].value)
	}
	return c.ones[i]
}

// SetGrad adds to the gradient of an input a tensor of the input's shape.
func (c *Context) SetGrad(i int, name string) {
	if !c.Needs(i) || c.err != nil {
		return
	}
	if err := mismatch(c.types[name], c.Type(i)); err != nil {
		c.fail(fmt.Errorf("the gradient of its input %q: %w", c.In(i), err))
		return
	}
	// A gradient that was computed by way of shapes known only when the graph runs still has the shape of the input.
	c.types[name] = merge(c.Type(i), c.types[name])
	c.walk.add(c.In(i), cotangent{name: name})
}

// SetUniform adds to the gradient of an input one number for every element.
func (c *Context) SetUniform(i int, value float64) {
	if c.Needs(i) {
		c.walk.add(c.In(i), cotangent{uniform: true, value: value})
	}
}

// SetBroadcast adds to the gradient of an input a tensor of the shape that the input was broadcast to, summed over
// the axes along which it was repeated.
func (c *Context) SetBroadcast(i int, name string) {
	if c.Needs(i) {
		c.SetGrad(i, c.reduceTo(name, c.In(i)))
	}
}

func mismatch(got, want Type) error {
	if !got.Ranked || !want.Ranked {
		return nil
	}
	bad := len(got.Shape) != len(want.Shape)
	for i := 0; !bad && i < len(got.Shape); i++ {
		bad = got.Shape[i].Set && want.Shape[i].Set && got.Shape[i].Size != want.Shape[i].Size
	}
	if bad {
		return fmt.Errorf("it has shape %s, the input has %s: the shapes in the file contradict each other", dims(got.Shape), dims(want.Shape))
	}
	return nil
}

func dims(shape []ir.Dim) string {
	out := make([]any, len(shape))
	for i, d := range shape {
		if d.Set {
			out[i] = d.Size
		} else {
			out[i] = "?"
		}
	}
	return fmt.Sprint(out)
}

// Op adds a node and gives the name of its output.
func (c *Context) Op(op string, inputs ...string) string { return c.OpWith(op, inputs) }

// OpWith adds a node with attributes, unless the graph has one that computes the same, and gives the name of its output.
func (c *Context) OpWith(op string, inputs []string, attrs ...*onnxpb.AttributeProto) string {
	key := nodeKey(op, inputs, attrs)
	if out, ok := c.walk.computed[key]; ok {
		return out
	}
	out := c.g.Add(op, inputs, attrs...)
	nodes := c.g.Model.Graph.Node
	c.node(nodes[len(nodes)-1], nil)
	c.walk.computed[key] = out
	return out
}

// Const adds a constant, or gives the equal one that is there.
func (c *Context) Const(t *onnxpb.TensorProto) string {
	name, err := c.g.Constant(t)
	c.fail(err)
	c.constant(name, t)
	return name
}

// Scalar is a constant without dimensions that has the element type of a value.
func (c *Context) Scalar(like string, v float64) string {
	elem := c.types[like].Elem
	if elem == 0 {
		c.fail(fmt.Errorf("the element type of %q is not known: run ONNX shape inference on the model first", like))
		return ""
	}
	t, err := ir.ScalarTensor(fmt.Sprintf("const_%g", v), elem, v)
	if err != nil {
		c.fail(fmt.Errorf("value %q: %w", like, err))
		return ""
	}
	return c.Const(t)
}

// List is a one-dimensional integer constant.
func (c *Context) List(v ...int64) string { return c.Const(ir.Int64Tensor("const_ints", v...)) }

// Scale multiplies by a number; by 1 not at all.
func (c *Context) Scale(x string, v float64) string {
	switch v {
	case 1:
		return x
	case -1:
		return c.Op("Neg", x)
	}
	return c.Op("Mul", x, c.Scalar(x, v))
}

// Rank is the number of dimensions of a value, which must be known.
func (c *Context) Rank(name string) int {
	t := c.types[name]
	if !t.Ranked {
		c.fail(fmt.Errorf("the number of dimensions of %q is not known: run ONNX shape inference on the model first", name))
	}
	return len(t.Shape)
}

// wantOpset says that the operators which a gradient needs came with a version of the operator set. An older model is
// raised to it, and the walk begins anew.
func (c *Context) wantOpset(version int64, why string) {
	if c.opset < version {
		c.fail(&opsetError{version, fmt.Sprintf("%s needs operator set %d, the model has %d", why, version, c.opset)})
	}
}

// opsetError says that the model's operator set is too old.
type opsetError struct {
	want int64
	text string
}

func (e *opsetError) Error() string { return e.text }
