package convert

import (
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// adapter changes a node from the form before a version of the operator set to the form of that version.
type adapter func(s *step) error

// step is the change of one node: the node itself, and nodes that are added before and behind it.
type step struct {
	*raiser
	n             *onnxpb.NodeProto
	before, after []*onnxpb.NodeProto
}

// input gives the name of an input, "" where it is left out.
func (s *step) input(i int) string {
	if i < len(s.n.Input) {
		return s.n.Input[i]
	}
	return ""
}

// setInput gives the node an input, with those before it left out where there are none.
func (s *step) setInput(i int, name string) {
	for len(s.n.Input) <= i {
		s.n.Input = append(s.n.Input, "")
	}
	s.n.Input[i] = name
}

// take removes an attribute and gives it; nil where the node has none.
func (s *step) take(name string) *onnxpb.AttributeProto {
	a := ir.Attr(s.n, name)
	s.n.Attribute = slices.DeleteFunc(s.n.Attribute, func(b *onnxpb.AttributeProto) bool { return b.GetName() == name })
	return a
}

// need removes attributes that must be there.
func (s *step) need(names ...string) (out []*onnxpb.AttributeProto, err error) {
	for _, name := range names {
		a := s.take(name)
		if a == nil {
			return nil, fmt.Errorf("attribute %s is missing", name)
		}
		out = append(out, a)
	}
	return out, nil
}

// set gives the node an attribute in place of the one of the same name.
func (s *step) set(a *onnxpb.AttributeProto) {
	s.take(a.GetName())
	s.n.Attribute = append(s.n.Attribute, a)
}

// base is what names made for the node begin with.
func (s *step) base() string {
	if s.n.Name != "" {
		return s.n.Name
	}
	for _, o := range s.n.Output {
		if o != "" {
			return o
		}
	}
	return s.n.OpType
}

// add puts a node in front of the node and gives the name of its output.
func (s *step) add(op string, inputs []string, attrs ...*onnxpb.AttributeProto) string {
	out := s.g.Unique(s.base() + "/" + op)
	n := &onnxpb.NodeProto{Name: out, OpType: op, Input: inputs, Output: []string{out}, Attribute: attrs}
	s.before = append(s.before, n)
	s.maker[out] = n
	return out
}

// behind puts a node behind the node that reads the node's first output, under a new name, and gives the old one.
func (s *step) behind(op string, more []string, attrs ...*onnxpb.AttributeProto) {
	out := s.n.Output[0]
	s.n.Output[0] = s.g.Unique(s.base() + "/" + s.n.OpType)
	n := &onnxpb.NodeProto{Name: s.g.Unique(s.base() + "/" + op), OpType: op, Input: append([]string{s.n.Output[0]}, more...), Output: []string{out}, Attribute: attrs}
	s.after = append(s.after, n)
	s.maker[s.n.Output[0]], s.maker[out] = s.n, n
}

// constant gives the name of a constant that is named after the node.
func (s *step) constant(t *onnxpb.TensorProto) (string, error) {
	t.Name = s.base() + "/" + t.Name
	return s.g.Constant(t)
}

// list gives the name of a constant list of integers.
func (s *step) list(name string, v ...int64) (string, error) {
	return s.constant(ir.Int64Tensor(name, v...))
}

// scalar gives the name of a constant with the element type of another value.
func (s *step) scalar(name, like string, v float64) (string, error) {
	elem := s.elem(like)
	if elem == 0 {
		return "", fmt.Errorf("the element type of %q is not known, which %s needs: run ONNX shape inference on the model first", like, name)
	}
	t, err := ir.ScalarTensor(name, elem, v)
	if err != nil {
		return "", err
	}
	return s.constant(t)
}
