package ir

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Extract gives a new model that computes some values of the main graph of m from others. Values named as inputs
// become graph inputs, with the type that m states for them, if any, and are no longer computed; nodes and constants
// that the outputs do not need are left out. Metadata, operator sets and functions are kept. m is not changed.
func Extract(m *onnxpb.ModelProto, inputs, outputs []string) (*onnxpb.ModelProto, error) {
	if err := Check(m); err != nil {
		return nil, err
	}
	if len(outputs) == 0 {
		return nil, errors.New("no outputs are named")
	}
	x := extraction{flow: newFlow(m.GetGraph()), from: map[string]bool{}}
	if err := x.names(inputs, outputs); err != nil {
		return nil, err
	}
	x.need = x.needed(outputs, x.from)
	if err := x.missing(); err != nil {
		return nil, err
	}
	shell := &onnxpb.ModelProto{
		IrVersion: m.IrVersion, OpsetImport: m.OpsetImport, ProducerName: m.ProducerName, ProducerVersion: m.ProducerVersion, Domain: m.Domain,
		ModelVersion: m.ModelVersion, DocString: m.DocString, MetadataProps: m.MetadataProps, Functions: m.Functions,
		Graph: x.graph(inputs, outputs),
	}
	shell.ProtoReflect().SetUnknown(m.ProtoReflect().GetUnknown())
	out := Clone(shell)
	x.cut(out.Graph)
	return out, nil
}

// Prune drops the nodes and constants that no graph output needs, in subgraphs too, and what describes their values.
// A graph input that such a constant is the default of goes with it; other inputs stay.
func Prune(m *onnxpb.ModelProto) {
	if m.GetGraph() != nil {
		prune(m.Graph, false)
	}
}

func prune(pb *onnxpb.GraphProto, inner bool) {
	for _, n := range pb.GetNode() {
		for _, g := range Subgraphs(n) {
			prune(g, true)
		}
	}
	f := newFlow(pb)
	var outputs []string
	for _, v := range pb.GetOutput() {
		outputs = append(outputs, v.GetName())
	}
	need := f.needed(outputs, nil)
	pb.Input = slices.DeleteFunc(pb.Input, func(v *onnxpb.ValueInfoProto) bool {
		return !inner && f.constant[v.GetName()] && !need.values[v.GetName()]
	})
	pb.Node = slices.DeleteFunc(pb.Node, func(n *onnxpb.NodeProto) bool { return !need.nodes[n] })
	pb.Initializer = slices.DeleteFunc(pb.Initializer, func(t *onnxpb.TensorProto) bool { return !need.values[t.GetName()] })
	pb.SparseInitializer = slices.DeleteFunc(pb.SparseInitializer, func(t *onnxpb.SparseTensorProto) bool { return !need.values[t.GetValues().GetName()] })
	pb.ValueInfo = slices.DeleteFunc(pb.ValueInfo, func(v *onnxpb.ValueInfoProto) bool { return !need.values[v.GetName()] })
	pb.QuantizationAnnotation = slices.DeleteFunc(pb.QuantizationAnnotation, func(a *onnxpb.TensorAnnotation) bool { return !need.values[a.GetTensorName()] })
}

// flow says where the values of a graph come from.
type flow struct {
	pb              *onnxpb.GraphProto
	maker           map[string]*onnxpb.NodeProto
	input, constant map[string]bool
}

func newFlow(pb *onnxpb.GraphProto) flow {
	f := flow{pb: pb, maker: map[string]*onnxpb.NodeProto{}, input: map[string]bool{}, constant: map[string]bool{}}
	for _, v := range pb.GetInput() {
		f.input[v.GetName()] = true
	}
	for _, t := range pb.GetInitializer() {
		f.constant[t.GetName()] = true
	}
	for _, t := range pb.GetSparseInitializer() {
		f.constant[t.GetValues().GetName()] = true
	}
	for _, n := range pb.GetNode() {
		for _, o := range n.GetOutput() {
			if o != "" {
				f.maker[o] = n
			}
		}
	}
	return f
}

func (f flow) has(name string) bool { return f.input[name] || f.constant[name] || f.maker[name] != nil }

// needs are the nodes and values that some outputs need.
type needs struct {
	nodes  map[*onnxpb.NodeProto]bool
	values map[string]bool // with the outputs of the nodes
	user   map[string]*onnxpb.NodeProto
}

// needed walks back from the outputs, as far as the values of from.
func (f flow) needed(outputs []string, from map[string]bool) needs {
	out := needs{map[*onnxpb.NodeProto]bool{}, map[string]bool{}, map[string]*onnxpb.NodeProto{}}
	visited := map[string]bool{}
	todo := slices.Clone(outputs)
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if visited[name] {
			continue
		}
		visited[name], out.values[name] = true, true
		n := f.maker[name]
		if n == nil || from[name] || out.nodes[n] {
			continue
		}
		out.nodes[n] = true
		for _, o := range n.GetOutput() {
			out.values[o] = true
		}
		uses(n, func(in string) {
			if out.user[in] == nil {
				out.user[in] = n
			}
			todo = append(todo, in)
		})
	}
	delete(out.values, "")
	return out
}

// uses names the values that a node reads: its inputs, and what its subgraphs take from around them.
func uses(n *onnxpb.NodeProto, visit func(name string)) {
	for _, in := range n.GetInput() {
		if in != "" {
			visit(in)
		}
	}
	for _, g := range Subgraphs(n) {
		captures(g, visit)
	}
}

// captures names the values that a graph takes from around it. Its own value may hide an outer one from there on.
func captures(g *onnxpb.GraphProto, visit func(name string)) {
	own := map[string]bool{"": true}
	for _, v := range g.GetInput() {
		own[v.GetName()] = true
	}
	for _, t := range g.GetInitializer() {
		own[t.GetName()] = true
	}
	for _, t := range g.GetSparseInitializer() {
		own[t.GetValues().GetName()] = true
	}
	outer := func(name string) {
		if !own[name] {
			visit(name)
		}
	}
	for _, n := range g.GetNode() {
		uses(n, outer)
		for _, o := range n.GetOutput() {
			own[o] = true
		}
	}
	for _, v := range g.GetOutput() {
		outer(v.GetName())
	}
}

type extraction struct {
	flow
	from map[string]bool // the inputs
	need needs
}

func (x extraction) names(inputs, outputs []string) error {
	for _, name := range inputs {
		if x.from[name] {
			return fmt.Errorf("input %q is named twice", name)
		}
		x.from[name] = true
	}
	seen := map[string]bool{}
	for _, name := range outputs {
		if seen[name] {
			return fmt.Errorf("output %q is named twice", name)
		}
		seen[name] = true
	}
	for _, name := range append(slices.Clone(inputs), outputs...) {
		if !x.has(name) {
			return fmt.Errorf("the main graph has no value %q", name)
		}
	}
	return nil
}

// missing says which graph input is needed and not given.
func (x extraction) missing() error {
	for _, v := range x.pb.GetInput() {
		name := v.GetName()
		if !x.need.values[name] || x.from[name] || x.constant[name] {
			continue
		}
		if n := x.need.user[name]; n != nil {
			return fmt.Errorf("the outputs depend on the graph input %q, over %s: name it as an input too", name, Describe(n))
		}
		return fmt.Errorf("the output %q is a graph input: name it as an input too", name)
	}
	return nil
}

// graph gives the part of the graph; its messages are still those of the whole model.
func (x extraction) graph(inputs, outputs []string) *onnxpb.GraphProto {
	pb := x.pb
	out := &onnxpb.GraphProto{Name: pb.GetName(), DocString: pb.GetDocString(), MetadataProps: pb.GetMetadataProps()}
	out.ProtoReflect().SetUnknown(pb.ProtoReflect().GetUnknown())
	known := x.types()
	for _, name := range inputs {
		out.Input = append(out.Input, known(name))
	}
	kept := func(name string) bool { return x.need.values[name] && !x.from[name] }
	for _, v := range pb.GetInput() {
		if kept(v.GetName()) { // a constant that may be replaced
			out.Input = append(out.Input, v)
		}
	}
	for _, n := range pb.GetNode() {
		if x.need.nodes[n] {
			out.Node = append(out.Node, n)
		}
	}
	for _, t := range pb.GetInitializer() {
		if kept(t.GetName()) {
			out.Initializer = append(out.Initializer, t)
		}
	}
	for _, t := range pb.GetSparseInitializer() {
		if kept(t.GetValues().GetName()) {
			out.SparseInitializer = append(out.SparseInitializer, t)
		}
	}
	for _, v := range pb.GetValueInfo() {
		if kept(v.GetName()) && !slices.Contains(outputs, v.GetName()) {
			out.ValueInfo = append(out.ValueInfo, v)
		}
	}
	for _, v := range pb.GetOutput() {
		if kept(v.GetName()) && !slices.Contains(outputs, v.GetName()) {
			out.ValueInfo = append(out.ValueInfo, v)
		}
	}
	for _, a := range pb.GetQuantizationAnnotation() {
		if x.need.values[a.GetTensorName()] {
			out.QuantizationAnnotation = append(out.QuantizationAnnotation, a)
		}
	}
	for _, name := range outputs {
		out.Output = append(out.Output, known(name))
	}
	return out
}

// types gives what describes a value, without a type where the model states none.
func (x extraction) types() func(name string) *onnxpb.ValueInfoProto {
	known := map[string]*onnxpb.ValueInfoProto{}
	for _, t := range x.pb.GetInitializer() {
		known[t.GetName()] = ValueInfo(t.GetName(), t.GetDataType(), FixedDims(t.GetDims()...)...)
	}
	for _, list := range [][]*onnxpb.ValueInfoProto{x.pb.GetValueInfo(), x.pb.GetOutput(), x.pb.GetInput()} {
		for _, v := range list {
			if v.GetType() != nil {
				known[v.GetName()] = v
			}
		}
	}
	return func(name string) *onnxpb.ValueInfoProto {
		if v := known[name]; v != nil {
			return v
		}
		return &onnxpb.ValueInfoProto{Name: name}
	}
}

// cut renames an output that a node still gives beside one that is needed, where a graph input now has its name.
func (x extraction) cut(pb *onnxpb.GraphProto) {
	g := &Graph{taken: map[string]bool{}, values: map[string]bool{}, nodes: map[string]bool{}, next: map[string]int{}}
	g.collect(pb)
	for _, n := range pb.Node {
		for i, o := range n.Output {
			if x.from[o] {
				n.Output[i] = g.Unique(o + "_unused")
			}
		}
	}
}

// FreeInitializers takes the graph inputs that an initializer gives a default out of the inputs of the main graph, so
// that they are constants, which the graph can be simplified with. Before version 4 of the format every initializer had
// to be an input too; the version is raised to 4 where it is lower and an input goes.
func FreeInitializers(m *onnxpb.ModelProto) {
	f := newFlow(m.GetGraph())
	n := len(m.GetGraph().GetInput())
	if n == 0 {
		return
	}
	m.Graph.Input = slices.DeleteFunc(m.Graph.Input, func(v *onnxpb.ValueInfoProto) bool { return f.constant[v.GetName()] })
	if len(m.Graph.Input) < n {
		m.IrVersion = max(m.IrVersion, 4)
	}
}
