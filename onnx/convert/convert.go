// Package convert raises ONNX models to newer versions of ONNX's own operator set, so that what comes after needs to
// know only the newer forms of the operators.
package convert

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Versions of ONNX's operator set that are known here.
const (
	Oldest = 7  // where the broadcasting of today came
	Newest = 26 // of ONNX 1.21
)

// formats are the lowest versions of the file format that hold an operator set, from Oldest on, as ONNX released them.
var formats = [Newest - Oldest + 1]int64{3, 3, 4, 5, 6, 7, 7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13}

// Raise brings the main graph of a model, with its subgraphs, from the version of ONNX's operator set that it is written for to a
// higher one, and the version of the format with it. What the model computes stays the same. Where the format allows
// initializers that are no inputs only from now on, they are no longer inputs. Functions of the model must be inlined
// first. The model is changed in place; on error it is as before.
func Raise(m *onnxpb.ModelProto, to int64) error {
	from := ir.Opset(m)
	if err := raisable(m, from, to); err != nil {
		return err
	}
	format := formats[to-Oldest]
	if from == to {
		m.IrVersion = max(m.IrVersion, format)
		return nil
	}
	work := shell(m)
	work.IrVersion = max(work.IrVersion, format)
	c, err := newRaiser(work)
	if err != nil {
		return err
	}
	if err := c.raise(from, to); err != nil {
		return err
	}
	m.Graph.Node, m.Graph.Initializer = work.Graph.Node, work.Graph.Initializer
	for _, o := range m.OpsetImport {
		if ir.IsStandard(o.GetDomain()) {
			o.Version = to
		}
	}
	if m.IrVersion < 4 && format >= 4 {
		ir.FreeInitializers(m)
	}
	m.IrVersion = max(m.IrVersion, format)
	return nil
}

func raisable(m *onnxpb.ModelProto, from, to int64) error {
	switch {
	case m.GetGraph() == nil:
		return errors.New("the model has no graph")
	case from == 0:
		return errors.New("the model imports no version of ONNX's operator set, so there is nothing to raise")
	case from < Oldest:
		return fmt.Errorf("the model is written for operator set %d, models can be raised from %d on: export it again", from, Oldest)
	case to > Newest:
		return fmt.Errorf("operator set %d is not known, the newest one is %d", to, Newest)
	case from > to:
		return fmt.Errorf("the model is written for operator set %d and cannot be lowered to %d", from, to)
	case len(m.GetTrainingInfo()) > 0 && from < to:
		return errors.New("the model holds graphs for training, which cannot be raised: export it for inference")
	}
	for _, f := range m.GetFunctions() {
		for _, o := range f.GetOpsetImport() {
			if ir.IsStandard(o.GetDomain()) && from < to {
				return fmt.Errorf("function %s.%s has operators of its own: inline the functions first", f.GetDomain(), f.GetName())
			}
		}
	}
	return nil
}

// shell is a copy of a model to work on. It shares what raising does not change, the weights above all.
func shell(m *onnxpb.ModelProto) *onnxpb.ModelProto {
	g := m.GetGraph()
	nodes := make([]*onnxpb.NodeProto, len(g.GetNode()))
	for i, n := range g.GetNode() {
		nodes[i] = proto.Clone(n).(*onnxpb.NodeProto)
	}
	return &onnxpb.ModelProto{
		IrVersion: m.IrVersion, OpsetImport: m.OpsetImport,
		Graph: &onnxpb.GraphProto{
			Name: g.Name, Node: nodes, Input: g.Input, Output: g.Output, ValueInfo: g.ValueInfo,
			Initializer: slices.Clip(g.Initializer), SparseInitializer: g.SparseInitializer,
		},
	}
}

// raise takes the graph through the versions one by one, so that an adapter sees only the form just before its own.
func (c *raiser) raise(from, to int64) error {
	main := c.g.Model.Graph
	dropLegacy(main)
	for version := from + 1; version <= to; version++ {
		if len(adapters[version]) == 0 {
			continue
		}
		c.version = version
		if err := c.graph(main, adapters[version]); err != nil {
			return fmt.Errorf("raising the model from operator set %d to %d: %w", from, to, err)
		}
	}
	return nil
}

func (c *raiser) graph(pb *onnxpb.GraphProto, table map[string]adapter) error {
	out := make([]*onnxpb.NodeProto, 0, len(pb.Node))
	for _, n := range pb.Node {
		for _, sub := range ir.Subgraphs(n) {
			if err := c.graph(sub, table); err != nil {
				return err
			}
		}
		adapt := table[n.OpType]
		if adapt == nil || !ir.IsStandard(n.Domain) {
			out = append(out, n)
			continue
		}
		if len(n.Input) == 0 || len(n.Output) == 0 || n.Input[0] == "" && n.OpType != "Scan" { // a Scan may start so
			return fmt.Errorf("%s: it has no input or no output", ir.Describe(n))
		}
		s := &step{raiser: c, n: n}
		if err := adapt(s); err != nil {
			return fmt.Errorf("%s: %w", ir.Describe(n), err)
		}
		out = append(append(append(out, s.before...), n), s.after...)
	}
	pb.Node = out
	return nil
}

// dropLegacy drops attributes that operator sets before 7 had and that exporters kept on writing; they mean nothing.
func dropLegacy(pb *onnxpb.GraphProto) {
	for _, n := range pb.Node {
		if ir.IsStandard(n.Domain) {
			n.Attribute = slices.DeleteFunc(n.Attribute, func(a *onnxpb.AttributeProto) bool {
				return a.GetName() == "consumed_inputs" || a.GetName() == "is_test"
			})
		}
		for _, sub := range ir.Subgraphs(n) {
			dropLegacy(sub)
		}
	}
}
