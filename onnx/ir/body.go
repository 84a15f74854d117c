package ir

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// instance is one call of a function: its nodes get names and attributes of the call.
type instance struct {
	in     *inliner
	call   *onnxpb.NodeProto
	f      *onnxpb.FunctionProto
	prefix string
}

// renames are the new names of values of a graph and of the graphs around it. An optional input that the call leaves
// out has the new name "".
type renames struct {
	outer *renames
	names map[string]string
}

func (r *renames) get(name string) (string, bool) {
	for ; r != nil && name != ""; r = r.outer {
		if to, ok := r.names[name]; ok {
			return to, true
		}
	}
	return name, false
}

// body gives the nodes of a function with the values and attributes of one call.
func (in *inliner) body(n *onnxpb.NodeProto, f *onnxpb.FunctionProto) ([]*onnxpb.NodeProto, error) {
	if err := in.use(f); err != nil {
		return nil, err
	}
	if len(n.GetInput()) > len(f.GetInput()) || len(n.GetOutput()) > len(f.GetOutput()) {
		return nil, fmt.Errorf("%d inputs and %d outputs for a function with %d and %d",
			len(n.GetInput()), len(n.GetOutput()), len(f.GetInput()), len(f.GetOutput()))
	}
	i := &instance{in: in, call: n, f: f, prefix: n.GetName()}
	if i.prefix == "" {
		i.prefix = f.GetName()
	}
	r := &renames{names: map[string]string{}}
	for k, name := range f.GetInput() {
		r.names[name] = ""
		if k < len(n.GetInput()) {
			r.names[name] = n.GetInput()[k]
		}
	}
	tail, err := i.outputs(r)
	if err != nil {
		return nil, err
	}
	nodes, err := i.nodes(f.GetNode(), r)
	if err != nil {
		return nil, err
	}
	for _, v := range f.GetValueInfo() {
		// Inputs and outputs are described where the call stands.
		if to := r.names[v.GetName()]; i.inner(v.GetName()) && to != "" {
			v = proto.Clone(v).(*onnxpb.ValueInfoProto)
			v.Name = to
			in.infos = append(in.infos, v)
		}
	}
	return append(nodes, tail...), nil
}

// inner says whether a value is neither input nor output of the function.
func (i *instance) inner(name string) bool {
	for _, list := range [][]string{i.f.GetInput(), i.f.GetOutput()} {
		for _, s := range list {
			if s == name {
				return false
			}
		}
	}
	return true
}

// outputs names the values that the call gives. One that the function has already given, as an input or as another
// output, is copied by a node of its own, which comes last.
func (i *instance) outputs(r *renames) (copies []*onnxpb.NodeProto, err error) {
	for k, name := range i.f.GetOutput() {
		to := ""
		if k < len(i.call.GetOutput()) {
			to = i.call.GetOutput()[k]
		}
		from, given := r.names[name]
		switch {
		case to == "":
		case !given:
			r.names[name] = to
		case from == "":
			return nil, fmt.Errorf("its output %q is the input %q, which the call leaves out", to, name)
		default:
			copies = append(copies, &onnxpb.NodeProto{
				Name: i.in.names.fresh(i.prefix + "/" + name), OpType: "Identity", Input: []string{from}, Output: []string{to}})
		}
	}
	return copies, nil
}

func (i *instance) nodes(list []*onnxpb.NodeProto, r *renames) ([]*onnxpb.NodeProto, error) {
	out := make([]*onnxpb.NodeProto, len(list))
	for k, n := range list {
		if err := i.in.grow(proto.Size(n), 1); err != nil {
			return nil, err
		}
		n = proto.Clone(n).(*onnxpb.NodeProto)
		if n.Name != "" {
			n.Name = i.in.names.fresh(i.prefix + "/" + n.Name)
		}
		for j, name := range n.Input {
			n.Input[j], _ = r.get(name)
		}
		for j, name := range n.Output {
			n.Output[j] = i.define(r, name)
		}
		var err error
		if n.Attribute, err = i.attributes(n.Attribute, r); err != nil {
			return nil, fmt.Errorf("%s: %w", Describe(n), err)
		}
		out[k] = n
	}
	return out, nil
}

// define gives the new name of a value that is defined here.
func (i *instance) define(r *renames, name string) string {
	if name == "" {
		return ""
	}
	if to, ok := r.names[name]; ok {
		return to
	}
	to := i.in.values.fresh(i.prefix + "/" + name)
	r.names[name] = to
	return to
}

// attributes puts the attributes of the call, or else the function's defaults, where the function refers to them. One
// that has neither is left out. Graphs that come from the call keep their names: these are names where the call stands.
func (i *instance) attributes(list []*onnxpb.AttributeProto, r *renames) ([]*onnxpb.AttributeProto, error) {
	out := list[:0]
	for _, a := range list {
		if ref := a.GetRefAttrName(); ref != "" {
			v := Attr(i.call, ref)
			if v == nil {
				v = Attr(&onnxpb.NodeProto{Attribute: i.f.GetAttributeProto()}, ref)
			}
			if v == nil {
				continue
			}
			if v.GetRefAttrName() != "" {
				return nil, fmt.Errorf("attribute %q refers to an attribute outside any function", v.GetName())
			}
			if a.GetType() != 0 && v.GetType() != 0 && a.GetType() != v.GetType() {
				return nil, fmt.Errorf("attribute %q is of type %s, the function wants %s", ref, v.GetType(), a.GetType())
			}
			nodes := 0
			for _, g := range Subgraphs(&onnxpb.NodeProto{Attribute: []*onnxpb.AttributeProto{v}}) {
				eachNode(g.GetNode(), func(*onnxpb.NodeProto) { nodes++ })
			}
			if err := i.in.grow(proto.Size(v), nodes); err != nil {
				return nil, err
			}
			v = proto.Clone(v).(*onnxpb.AttributeProto)
			v.Name = a.GetName()
			out = append(out, v)
			continue
		}
		for _, g := range Subgraphs(&onnxpb.NodeProto{Attribute: []*onnxpb.AttributeProto{a}}) {
			if err := i.subgraph(g, r); err != nil {
				return nil, err
			}
		}
		out = append(out, a)
	}
	return out, nil
}

// subgraph renames what a graph inside the function's body defines and uses.
func (i *instance) subgraph(g *onnxpb.GraphProto, outer *renames) error {
	r := &renames{outer: outer, names: map[string]string{}}
	for _, v := range g.GetInput() {
		v.Name = i.define(r, v.GetName())
	}
	for _, t := range g.GetInitializer() {
		t.Name = i.define(r, t.GetName())
	}
	for _, t := range g.GetSparseInitializer() {
		if t.GetValues() != nil {
			t.Values.Name = i.define(r, t.Values.GetName())
		}
	}
	nodes, err := i.nodes(g.GetNode(), r)
	if err != nil {
		return err
	}
	g.Node = nodes
	if err := i.subgraphOutputs(g, r); err != nil {
		return err
	}
	for _, v := range g.GetValueInfo() {
		v.Name, _ = r.get(v.GetName())
	}
	for _, q := range g.GetQuantizationAnnotation() {
		q.TensorName, _ = r.get(q.GetTensorName())
	}
	return nil
}

// subgraphOutputs renames the outputs of a graph inside the body. Two inputs of the function may be one value of the
// call; the second of two outputs that are one value then gets a name of its own.
func (i *instance) subgraphOutputs(g *onnxpb.GraphProto, r *renames) error {
	seen := map[string]bool{}
	for _, v := range g.GetOutput() {
		name := v.GetName()
		to, _ := r.get(name)
		if to == "" {
			return fmt.Errorf("graph %q gives the input %q, which the call leaves out", g.GetName(), name)
		}
		if seen[to] {
			from := to
			to = i.in.values.fresh(i.prefix + "/" + name)
			g.Node = append(g.Node, &onnxpb.NodeProto{
				Name: i.in.names.fresh(i.prefix + "/" + name), OpType: "Identity", Input: []string{from}, Output: []string{to}})
		}
		seen[to] = true
		v.Name = to
	}
	return nil
}
