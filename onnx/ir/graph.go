package ir

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Graph adds to the main graph of a model: names stay unique, equal constants are stored once.
// Nodes are appended, so a node may use every value that the graph already has.
type Graph struct {
	Model *onnxpb.ModelProto

	taken  map[string]bool   // names of values and of nodes, subgraphs included, and those given by Unique
	values map[string]bool   // names of values
	nodes  map[string]bool   // names of nodes
	next   map[string]int    // next number to try for a name that is taken
	consts map[string]string // content of a constant to its name
	prefix string
}

// NewModel gives a model with an empty graph against one version of ONNX's operator set.
func NewModel(name string, irVersion, opset int64) *onnxpb.ModelProto {
	return &onnxpb.ModelProto{
		IrVersion:   irVersion,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: opset}},
		Graph:       &onnxpb.GraphProto{Name: name},
	}
}

// NewGraph wraps the graph of a model. The model is changed in place by the methods.
func NewGraph(m *onnxpb.ModelProto) (*Graph, error) {
	if m.GetGraph() == nil {
		return nil, errors.New("the model has no graph")
	}
	g := &Graph{Model: m, taken: map[string]bool{}, values: map[string]bool{}, nodes: map[string]bool{}, next: map[string]int{}, consts: map[string]string{}}
	g.collect(m.Graph)
	return g, nil
}

func (g *Graph) collect(pb *onnxpb.GraphProto) {
	for _, v := range pb.GetInput() {
		g.take(v.GetName())
	}
	for _, t := range pb.GetInitializer() {
		g.take(t.GetName())
	}
	for _, t := range pb.GetSparseInitializer() {
		g.take(t.GetValues().GetName())
	}
	for _, n := range pb.GetNode() {
		g.taken[n.GetName()], g.nodes[n.GetName()] = true, true
		for _, o := range n.GetOutput() {
			g.take(o)
		}
		for _, sub := range Subgraphs(n) {
			g.collect(sub)
		}
	}
}

// take notes the name of a value.
func (g *Graph) take(name string) { g.taken[name], g.values[name] = true, true }

// Scope sets the text that the names of the following nodes and constants begin with, and gives the former one.
func (g *Graph) Scope(prefix string) (former string) {
	former, g.prefix = g.prefix, prefix
	return former
}

// Unique gives the name itself where it is free, else the name with the first free number behind it, and takes it.
func (g *Graph) Unique(name string) string {
	out := name
	for g.taken[out] || out == "" {
		g.next[name]++
		out = name + "_" + strconv.Itoa(g.next[name])
	}
	g.taken[out] = true
	return out
}

// Add appends a node with one output and gives the output's name, which is made from the scope and the operator.
func (g *Graph) Add(op string, inputs []string, attrs ...*onnxpb.AttributeProto) string {
	out := g.Unique(g.prefix + op)
	g.take(out)
	g.node(out, op, inputs, []string{out}, attrs)
	return out
}

// AddNamed appends a node with given output names, which must be free or taken with Unique by the caller. The name of
// the node gets a number where another node has it; nodes and values may share a name.
func (g *Graph) AddNamed(name, op string, inputs, outputs []string, attrs ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
	if g.nodes[name] {
		name = g.Unique(name)
	}
	g.taken[name] = true
	for _, o := range outputs {
		g.take(o)
	}
	return g.node(name, op, inputs, outputs, attrs)
}

func (g *Graph) node(name, op string, inputs, outputs []string, attrs []*onnxpb.AttributeProto) *onnxpb.NodeProto {
	n := &onnxpb.NodeProto{Name: name, OpType: op, Input: slices.Clone(inputs), Output: slices.Clone(outputs), Attribute: attrs}
	g.nodes[name] = true
	g.Model.Graph.Node = append(g.Model.Graph.Node, n)
	return n
}

// Constant gives the name of a constant with the type, shape and values of t, adding it unless the graph got an equal
// one from this method before. t's own name, with the scope in front, is taken where it is free.
func (g *Graph) Constant(t *onnxpb.TensorProto) (string, error) {
	named := proto.Clone(t).(*onnxpb.TensorProto)
	named.Name = ""
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(named)
	if err != nil {
		return "", fmt.Errorf("constant %q: %w", t.GetName(), err)
	}
	if name, ok := g.consts[string(key)]; ok {
		return name, nil
	}
	named.Name = g.Unique(g.prefix + t.GetName())
	g.take(named.Name)
	g.consts[string(key)] = named.Name
	// Before version 4 of the format an initializer had to be a graph input as well, so a node takes its place.
	if g.Model.IrVersion > 0 && g.Model.IrVersion < 4 {
		g.node(named.Name, "Constant", nil, []string{named.Name}, []*onnxpb.AttributeProto{TensorAttr("value", named)})
	} else {
		g.Model.Graph.Initializer = append(g.Model.Graph.Initializer, named)
	}
	return named.Name, nil
}

// Initializer adds a constant under its own name, which no other value may have.
func (g *Graph) Initializer(t *onnxpb.TensorProto) error {
	if g.values[t.GetName()] {
		return fmt.Errorf("the name %q is taken", t.GetName())
	}
	g.take(t.GetName())
	g.Model.Graph.Initializer = append(g.Model.Graph.Initializer, t)
	return nil
}

// Input adds a graph input, whose name no other value may have.
func (g *Graph) Input(name string, elem int32, shape ...Dim) error {
	if g.values[name] {
		return fmt.Errorf("the name %q is taken", name)
	}
	g.take(name)
	g.Model.Graph.Input = append(g.Model.Graph.Input, ValueInfo(name, elem, shape...))
	return nil
}

// Output makes a value a graph output.
func (g *Graph) Output(name string, elem int32, shape ...Dim) {
	g.Model.Graph.Output = append(g.Model.Graph.Output, ValueInfo(name, elem, shape...))
}

// Rename changes the name of a value that a node of the main graph gives, wherever it is used. No other value may have
// the new one.
func (g *Graph) Rename(from, to string) error {
	if g.values[to] {
		return fmt.Errorf("the name %q is taken", to)
	}
	produced := slices.ContainsFunc(g.Model.Graph.Node, func(n *onnxpb.NodeProto) bool { return slices.Contains(n.Output, from) })
	if !produced {
		return fmt.Errorf("no node gives a value %q", from)
	}
	renameIn(g.Model.Graph, from, to, true)
	g.take(to)
	delete(g.values, from)
	for key, name := range g.consts {
		if name == from {
			g.consts[key] = to
		}
	}
	return nil
}

// Vacate gives the value of a name, if there is one, another name, and says which. Values of subgraphs that have the
// name get the other one too.
func (g *Graph) Vacate(name string) string {
	if !g.values[name] {
		return name
	}
	to := g.Unique(name)
	vacateIn(g.Model.Graph, name, to)
	for key, known := range g.consts {
		if known == name {
			g.consts[key] = to
		}
	}
	g.take(to)
	delete(g.values, name)
	if !g.nodes[name] {
		delete(g.taken, name)
	}
	return to
}

// vacateIn renames every definition and use of a name.
func vacateIn(pb *onnxpb.GraphProto, name, to string) {
	for _, v := range pb.Input {
		if v.Name == name {
			v.Name = to
		}
	}
	for _, t := range pb.Initializer {
		if t.Name == name {
			t.Name = to
		}
	}
	for _, t := range pb.SparseInitializer {
		if t.GetValues().GetName() == name {
			t.Values.Name = to
		}
	}
	renameIn(pb, name, to, true)
	for _, n := range pb.Node {
		for _, sub := range Subgraphs(n) {
			vacateIn(sub, name, to)
		}
	}
}

// Redirect makes everything that reads a value read another one.
func (g *Graph) Redirect(from, to string) {
	for _, n := range g.Model.Graph.Node {
		for i, in := range n.Input {
			if in == from {
				n.Input[i] = to
			}
		}
		for _, sub := range Subgraphs(n) {
			renameIn(sub, from, to, false)
		}
	}
	for _, v := range g.Model.Graph.Output {
		if v.Name == from {
			v.Name = to
		}
	}
}

// renameIn renames uses, and definitions in the graph that owns the value. A subgraph that defines the name itself
// hides the outer value and is left alone.
func renameIn(pb *onnxpb.GraphProto, from, to string, owner bool) {
	if !owner && defines(pb, from) {
		return
	}
	swap := func(names []string) {
		for i, s := range names {
			if s == from {
				names[i] = to
			}
		}
	}
	for _, n := range pb.Node {
		swap(n.Input)
		if owner {
			swap(n.Output)
		}
		for _, sub := range Subgraphs(n) {
			renameIn(sub, from, to, false)
		}
	}
	for _, list := range [][]*onnxpb.ValueInfoProto{pb.Output, pb.ValueInfo} {
		for _, v := range list {
			if v.Name == from {
				v.Name = to
			}
		}
	}
}

func defines(pb *onnxpb.GraphProto, name string) bool {
	return slices.ContainsFunc(pb.Input, func(v *onnxpb.ValueInfoProto) bool { return v.Name == name }) ||
		slices.ContainsFunc(pb.Initializer, func(t *onnxpb.TensorProto) bool { return t.Name == name }) ||
		slices.ContainsFunc(pb.Node, func(n *onnxpb.NodeProto) bool { return slices.Contains(n.Output, name) })
}

// SetMetadata adds entries to the model's metadata; the whole list is then sorted by key.
func SetMetadata(m *onnxpb.ModelProto, meta map[string]string) {
	kept := slices.DeleteFunc(m.MetadataProps, func(e *onnxpb.StringStringEntryProto) bool {
		_, replaced := meta[e.GetKey()]
		return replaced
	})
	for k, v := range meta {
		kept = append(kept, &onnxpb.StringStringEntryProto{Key: k, Value: v})
	}
	slices.SortStableFunc(kept, func(a, b *onnxpb.StringStringEntryProto) int {
		return strings.Compare(a.GetKey(), b.GetKey())
	})
	m.MetadataProps = kept
}

// Metadata gives the model's metadata; of two entries with one key the later one counts.
func Metadata(m *onnxpb.ModelProto) map[string]string {
	out := map[string]string{}
	for _, e := range m.GetMetadataProps() {
		out[e.GetKey()] = e.GetValue()
	}
	return out
}

// Has says whether the graph has a value of a name.
func (g *Graph) Has(name string) bool { return g.values[name] }

// Names lists the values of the graph, subgraphs included, sorted.
func (g *Graph) Names() []string { return slices.Sorted(maps.Keys(g.values)) }
