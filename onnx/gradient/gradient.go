package gradient

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/onnx/convert"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// minOpset is the operator set in which element-wise operators got NumPy broadcasting.
const minOpset = 7

// Gradient adds to a model the gradient of the sum of the value `of` with respect to each of the values wrt, and gives
// the names of the gradients, which have the shapes of wrt. A value is a graph input, an initializer or the output of a
// node of the main graph. The sum over a batch of rows that do not influence each other has as its gradient the
// gradient of each row.
//
// A model whose operator set is older than a gradient needs is raised to the set that it needs, see package convert.
// The model is changed in place; on an error it is as before. The gradients are not graph outputs yet. An error names
// the node and operator that cannot be differentiated.
func Gradient(m *onnxpb.ModelProto, of string, wrt []string) (grads []string, err error) {
	return Standard().Gradient(m, of, wrt)
}

// GradientForRefit is Gradient for a model whose constants will be replaced by others again and again, see package
// refit. Its gradients are the same; forms that multiply the size of weights, which pay where these are rearranged once,
// are left out.
func GradientForRefit(m *onnxpb.ModelProto, of string, wrt []string) (grads []string, err error) {
	return Standard().gradient(m, of, wrt, true)
}

// Gradient is the function of that name with the rules of this registry.
func (r Registry) Gradient(m *onnxpb.ModelProto, of string, wrt []string) (grads []string, err error) {
	return r.gradient(m, of, wrt, false)
}

func (r Registry) gradient(m *onnxpb.ModelProto, of string, wrt []string, refit bool) (grads []string, err error) {
	if err := ir.Check(m); err != nil {
		return nil, err
	}
	if v := ir.Opset(m); v < minOpset {
		return nil, fmt.Errorf("the model is written against operator set %d, gradients need %d or later: convert it with ONNX's version converter", v, minOpset)
	}
	work := m
	for {
		grads, err = r.attempt(work, of, wrt, refit)
		var old *opsetError
		if !errors.As(err, &old) {
			break
		}
		raised := ir.Clone(m)
		if cerr := convert.Raise(raised, old.want); cerr != nil {
			return nil, fmt.Errorf("%w, and the model cannot be raised to it: %w", err, cerr)
		}
		work = raised
	}
	if err == nil && work != m {
		m.Graph, m.OpsetImport, m.IrVersion = work.Graph, work.OpsetImport, work.IrVersion
	}
	return grads, err
}

// attempt differentiates with the operator set that the model has.
func (r Registry) attempt(m *onnxpb.ModelProto, of string, wrt []string, refit bool) (grads []string, err error) {
	nodes, inits := len(m.Graph.Node), len(m.Graph.Initializer)
	defer func() {
		if err != nil {
			m.Graph.Node, m.Graph.Initializer = m.Graph.Node[:nodes], m.Graph.Initializer[:inits]
		}
	}()
	w, err := newWalk(m, r, of, wrt)
	if err != nil {
		return nil, err
	}
	w.refit = refit
	return w.run(of, wrt)
}

// walk is one differentiation.
type walk struct {
	g       *ir.Graph
	typing  *typing
	rules   Registry
	nodes   []*onnxpb.NodeProto // of the graph as it was
	makers  map[string]*onnxpb.NodeProto
	wrt     map[string]bool
	depends map[string]bool // values that carry a gradient to a value of wrt
	parts   map[string][]cotangent

	constant map[string]bool   // values that do not change between runs
	computed map[string]string // what a node computes to its output, see nodeKey

	refit bool // constants will be replaced

	rectified map[string]bool // gradients of a Relu's output that are 0 wherever it is
}

func newWalk(m *onnxpb.ModelProto, rules Registry, of string, wrt []string) (*walk, error) {
	g, err := ir.NewGraph(m)
	if err != nil {
		return nil, err
	}
	w := &walk{
		g: g, typing: newTyping(m, rules), rules: rules, nodes: slices.Clone(m.Graph.Node),
		makers: map[string]*onnxpb.NodeProto{}, wrt: map[string]bool{}, depends: map[string]bool{}, parts: map[string][]cotangent{}, constant: map[string]bool{}, computed: map[string]string{}, rectified: map[string]bool{},
	}
	values := map[string]bool{}
	for _, t := range m.Graph.Initializer {
		values[t.GetName()], w.constant[t.GetName()] = true, true
	}
	for _, v := range m.Graph.Input {
		values[v.GetName()], w.constant[v.GetName()] = true, false
	}
	for _, n := range w.nodes {
		if n.OpType == "Constant" && len(n.Output) == 1 {
			w.constant[n.Output[0]] = true
		}
		for _, out := range n.Output {
			values[out], w.makers[out] = true, n
		}
		if rule, _ := rules.rule(n); rule.Gradient != nil && len(n.Output) == 1 {
			w.computed[nodeKey(n.OpType, n.Input, n.Attribute)] = n.Output[0]
		}
	}
	if len(wrt) == 0 {
		return nil, errors.New("there is no value to differentiate with respect to")
	}
	for _, name := range append([]string{of}, wrt...) {
		if name == "" || !values[name] {
			return nil, fmt.Errorf("the graph has no value %q", name)
		}
		if elem := w.typing.types[name].Elem; elem != 0 && !ir.IsFloat(elem) {
			return nil, fmt.Errorf("value %q has element type %s: only floating-point values have gradients", name, ir.ElemName(elem))
		}
	}
	for _, name := range wrt {
		w.wrt[name] = true
	}
	return w, nil
}

func (w *walk) run(of string, wrt []string) ([]string, error) {
	for _, name := range wrt {
		if err := w.reaches(name, of); err != nil {
			return nil, err
		}
	}
	w.depends, _ = w.forward(w.wrt)
	if found := w.obstacles(of); len(found) > 0 {
		return nil, found[0]
	}
	w.add(of, cotangent{uniform: true, value: 1})
	sums := map[string]cotangent{}
	for i := len(w.nodes) - 1; i >= 0; i-- {
		if err := w.step(w.nodes[i], sums); err != nil {
			return nil, fmt.Errorf("%s: %w", ir.Describe(w.nodes[i]), err)
		}
	}
	out := make([]string, len(wrt))
	for i, name := range wrt {
		c := w.context(nil, "grad/"+name+"/")
		sum, ok := sums[name]
		if !ok {
			sum = w.sum(c, name)
		}
		if !sum.exists() { // it is read, but its value does not matter, as that of an input that only gives a type
			sum.uniform = true
		}
		if sum.uniform {
			sum.name = c.fill(name, sum.value)
		}
		if c.err != nil {
			return nil, fmt.Errorf("value %q: %w", name, c.err)
		}
		out[i] = sum.name
	}
	return out, nil
}

// obstacles lists the nodes between the readout and wrt that cannot be differentiated, in the order in which they run.
func (w *walk) obstacles(of string) (found []error) {
	reached := map[string]bool{of: true}
	for i := len(w.nodes) - 1; i >= 0; i-- {
		n := w.nodes[i]
		rule, known := w.rules.rule(n)
		if rule.Stops || !w.onPath(n, func(out string) bool { return reached[out] }) {
			continue
		}
		for _, in := range uses(n) {
			reached[in] = reached[in] || w.depends[in]
		}
		switch {
		case rule.Refuse != "":
			found = append(found, fmt.Errorf("%s: it cannot be differentiated: %s", ir.Describe(n), rule.Refuse))
		case rule.Gradient == nil:
			found = append(found, fmt.Errorf("%s: %w", ir.Describe(n), unsupported(n, known)))
		}
	}
	slices.Reverse(found)
	return found
}

// Obstacles lists what keeps a value from being differentiated with respect to another one, a node each, and changes
// nothing. It is empty exactly where Gradient succeeds.
func Obstacles(m *onnxpb.ModelProto, of, wrt string) []error {
	if err := ir.Check(m); err != nil {
		return []error{err}
	}
	m = ir.Clone(m)
	w, err := newWalk(m, Standard(), of, []string{wrt})
	if err != nil {
		return []error{err}
	}
	if err := w.reaches(wrt, of); err != nil {
		return []error{err}
	}
	w.depends, _ = w.forward(w.wrt)
	if found := w.obstacles(of); len(found) > 0 {
		return found
	}
	if _, err := Gradient(m, of, []string{wrt}); err != nil {
		return []error{err}
	}
	return nil
}

// onPath says whether a gradient that reaches some values has to pass a node.
func (w *walk) onPath(n *onnxpb.NodeProto, reached func(string) bool) bool {
	return slices.ContainsFunc(n.Output, func(out string) bool { return out != "" && reached(out) }) &&
		slices.ContainsFunc(uses(n), func(in string) bool { return w.depends[in] })
}

// step passes the gradients of a node's outputs on to its inputs.
func (w *walk) step(n *onnxpb.NodeProto, sums map[string]cotangent) error {
	got := func(out string) bool { return len(w.parts[out]) > 0 }
	if !slices.ContainsFunc(n.Output, got) {
		return nil
	}
	c := w.context(n, "grad/"+scopeName(n)+"/")
	for i, out := range n.Output {
		c.grads[i] = w.sum(c, out)
		sums[out] = c.grads[i]
	}
	rule, _ := w.rules.rule(n)
	if c.err != nil || rule.Gradient == nil || !w.onPath(n, got) {
		return c.err
	}
	if err := rule.Gradient(c); err != nil {
		return err
	}
	return c.err
}

func unsupported(n *onnxpb.NodeProto, known bool) error {
	kind := "this operator"
	if !ir.IsStandard(n.GetDomain()) && !known {
		kind = "operators outside the standard set"
	}
	return fmt.Errorf("the gradient of %s is not supported: export the model without it, or differentiate with respect to a value behind it", kind)
}

func scopeName(n *onnxpb.NodeProto) string {
	if n.GetName() != "" {
		return n.GetName()
	}
	for _, out := range n.Output {
		if out != "" {
			return out
		}
	}
	return n.GetOpType()
}

func (w *walk) context(n *onnxpb.NodeProto, scope string) *Context {
	w.g.Scope(scope)
	return &Context{
		Site: Site{Node: n, typing: w.typing}, g: w.g, walk: w,
		grads: make([]cotangent, len(n.GetOutput())), ones: make([]string, len(n.GetOutput())),
	}
}

func (w *walk) add(name string, part cotangent) { w.parts[name] = append(w.parts[name], part) }

// sum adds up what the users of a value contribute to its gradient.
func (w *walk) sum(c *Context, name string) cotangent {
	parts := w.parts[name]
	if len(parts) == 0 {
		return cotangent{}
	}
	total := cotangent{uniform: true}
	var names []string
	for _, p := range parts {
		if p.uniform {
			total.value += p.value
		} else {
			names = append(names, p.name)
		}
	}
	if len(names) == 0 {
		return total
	}
	sum := names[0]
	switch {
	case len(names) == 2:
		sum = c.Op("Add", names...)
	case len(names) > 2:
		sum = c.Op("Sum", names...)
	}
	if total.value != 0 {
		sum = c.Op("Add", sum, c.Scalar(name, total.value))
	}
	return cotangent{name: sum}
}

// forward marks the values that a gradient can flow back from to one of the given values, and lists the nodes without
// a gradient where paths end.
func (w *walk) forward(from map[string]bool) (depends map[string]bool, stops []string) {
	depends = map[string]bool{}
	for name := range from {
		depends[name] = true
	}
	for _, n := range w.nodes {
		if !slices.ContainsFunc(uses(n), func(in string) bool { return depends[in] }) {
			continue
		}
		if rule, _ := w.rules.rule(n); rule.Stops {
			stops = append(stops, ir.Describe(n))
			continue
		}
		carries := false
		for _, out := range n.Output {
			elem := w.typing.types[out].Elem
			if out != "" && (elem == 0 || ir.IsFloat(elem)) {
				depends[out], carries = true, true
			}
		}
		if !carries {
			stops = append(stops, ir.Describe(n))
		}
	}
	return depends, stops
}

func (w *walk) reaches(name, of string) error {
	depends, stops := w.forward(map[string]bool{name: true})
	if depends[of] {
		return nil
	}
	if len(stops) > 0 {
		return fmt.Errorf("%q has no gradient with respect to %q: paths end at %s, which has none", of, name, strings.Join(stops, ", "))
	}
	return fmt.Errorf("%q does not depend on %q", of, name)
}

// uses lists the values that a node reads, those that its subgraphs take from outside included.
func uses(n *onnxpb.NodeProto) []string {
	subs := ir.Subgraphs(n)
	if len(subs) == 0 {
		return n.Input
	}
	out := slices.Clone(n.Input)
	for _, sub := range subs {
		for _, inner := range sub.GetNode() {
			out = append(out, uses(inner)...)
		}
		for _, v := range sub.GetOutput() {
			out = append(out, v.GetName())
		}
	}
	return out
}
