package ir

import (
	"errors"
	"fmt"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Check says whether the graphs of a model hold together: names are unique, every value has one definition, every input of a node is
// defined before it, nothing runs in a circle, outputs exist. Subgraphs and functions are checked too. What an
// operator wants of its inputs and attributes is not checked. Errors name the node and its operator.
func Check(m *onnxpb.ModelProto) error {
	if m.GetGraph() == nil {
		return errors.New("the model has no graph")
	}
	if Opset(m) == 0 && len(m.GetOpsetImport()) == 0 {
		return errors.New("the model states no operator set: opset_import is empty")
	}
	c := checker{defined: map[string]int{}}
	if err := c.graph(m.GetGraph()); err != nil {
		return err
	}
	for _, f := range m.GetFunctions() {
		if err := checkFunction(f); err != nil {
			return fmt.Errorf("function %s.%s: %w", f.GetDomain(), f.GetName(), err)
		}
	}
	return nil
}

// checker holds the names that are visible where it stands, with how many enclosing graphs define each.
type checker struct{ defined map[string]int }

// scope is one graph's own definitions.
type scope struct {
	outer *checker
	own   map[string]bool
}

func (s *scope) define(name string) bool {
	if s.own[name] {
		return false
	}
	s.own[name] = true
	s.outer.defined[name]++
	return true
}

func (s *scope) close() {
	for name := range s.own {
		if s.outer.defined[name]--; s.outer.defined[name] == 0 {
			delete(s.outer.defined, name)
		}
	}
}

func (c *checker) graph(pb *onnxpb.GraphProto) error {
	s := &scope{outer: c, own: map[string]bool{}}
	defer s.close()
	inputs := map[string]bool{}
	for _, v := range pb.GetInput() {
		if v.GetName() == "" {
			return fmt.Errorf("graph %q: an input has no name", pb.GetName())
		}
		if !s.define(v.GetName()) {
			return fmt.Errorf("graph %q: two inputs are called %q", pb.GetName(), v.GetName())
		}
		inputs[v.GetName()] = true
	}
	if err := s.initializers(pb, inputs); err != nil {
		return err
	}
	if err := c.nodes(s, pb.GetNode()); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, v := range pb.GetOutput() {
		if c.defined[v.GetName()] == 0 {
			return fmt.Errorf("graph %q: output %q is given by no node", pb.GetName(), v.GetName())
		}
		if seen[v.GetName()] {
			return fmt.Errorf("graph %q: two outputs are called %q", pb.GetName(), v.GetName())
		}
		seen[v.GetName()] = true
	}
	return nil
}

// initializers defines the constants of a graph. One that shares its name with an input is that input's default.
func (s *scope) initializers(pb *onnxpb.GraphProto, inputs map[string]bool) error {
	names := make([]string, 0, len(pb.GetInitializer())+len(pb.GetSparseInitializer()))
	for _, t := range pb.GetInitializer() {
		names = append(names, t.GetName())
	}
	for _, t := range pb.GetSparseInitializer() {
		names = append(names, t.GetValues().GetName())
	}
	seen := map[string]bool{}
	for _, name := range names {
		if name == "" {
			return fmt.Errorf("graph %q: an initializer has no name", pb.GetName())
		}
		if seen[name] || !inputs[name] && !s.define(name) {
			return fmt.Errorf("graph %q: two initializers are called %q", pb.GetName(), name)
		}
		seen[name] = true
	}
	return nil
}

func (c *checker) nodes(s *scope, nodes []*onnxpb.NodeProto) error {
	names := map[string]bool{}
	for i, n := range nodes {
		if n.GetOpType() == "" {
			return fmt.Errorf("node %d (%q) has no operator", i, n.GetName())
		}
		if n.GetName() != "" && names[n.GetName()] {
			return fmt.Errorf("%s: another node has its name", Describe(n))
		}
		names[n.GetName()] = true
		for _, in := range n.GetInput() {
			if in != "" && c.defined[in] == 0 {
				return undefined(n, in, nodes[i:])
			}
		}
		if err := checkAttributes(n); err != nil {
			return fmt.Errorf("%s: %w", Describe(n), err)
		}
		for _, sub := range Subgraphs(n) {
			if err := c.graph(sub); err != nil {
				return fmt.Errorf("%s: %w", Describe(n), err)
			}
		}
		for _, out := range n.GetOutput() {
			if out != "" && !s.define(out) {
				return fmt.Errorf("%s: its output %q is already defined", Describe(n), out)
			}
		}
	}
	return nil
}

func checkAttributes(n *onnxpb.NodeProto) error {
	seen := map[string]bool{}
	for _, a := range n.GetAttribute() {
		if a.GetName() == "" {
			return errors.New("an attribute has no name")
		}
		if seen[a.GetName()] {
			return fmt.Errorf("two attributes are called %q", a.GetName())
		}
		seen[a.GetName()] = true
	}
	return nil
}

// undefined says why an input of the first of the nodes is not there: given later, in a circle, or not at all.
func undefined(n *onnxpb.NodeProto, in string, nodes []*onnxpb.NodeProto) error {
	maker := map[string]*onnxpb.NodeProto{}
	for _, other := range nodes {
		for _, out := range other.GetOutput() {
			if _, ok := maker[out]; !ok && out != "" {
				maker[out] = other
			}
		}
	}
	from, ok := maker[in]
	if !ok {
		return fmt.Errorf("%s: its input %q is defined nowhere", Describe(n), in)
	}
	seen := map[*onnxpb.NodeProto]bool{from: true}
	for todo := []*onnxpb.NodeProto{from}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at == n {
			return fmt.Errorf("%s: its input %q depends on the node itself: the graph has a cycle", Describe(n), in)
		}
		for _, name := range at.GetInput() {
			if next := maker[name]; next != nil && !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	return fmt.Errorf("%s: its input %q is given by a later one, %s: nodes must stand in the order in which they run",
		Describe(n), in, Describe(from))
}

func checkFunction(f *onnxpb.FunctionProto) error {
	c := &checker{defined: map[string]int{}}
	s := &scope{outer: c, own: map[string]bool{}}
	for _, in := range f.GetInput() {
		if !s.define(in) {
			return fmt.Errorf("two inputs are called %q", in)
		}
	}
	for _, g := range Subgraphs(&onnxpb.NodeProto{Attribute: f.GetAttributeProto()}) {
		// Graphs that are defaults of attributes see nothing of the function.
		if err := (&checker{defined: map[string]int{}}).graph(g); err != nil {
			return fmt.Errorf("default of an attribute: %w", err)
		}
	}
	if err := c.nodes(s, f.GetNode()); err != nil {
		return err
	}
	for _, out := range f.GetOutput() {
		if c.defined[out] == 0 {
			return fmt.Errorf("output %q is given by no node", out)
		}
	}
	return nil
}
