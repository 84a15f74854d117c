package ir

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Bounds on what Inline makes: functions that call each other twice, thirty deep, would fill any memory.
const (
	maxInlined = 1 << 18  // nodes that functions give
	maxGrowth  = 64 << 20 // bytes that they take, beyond four times the size of the model
	maxCalls   = 200      // calls within calls
	maxNesting = 24       // graphs within graphs, so that what is written can be read: see maxDepth
)

// Inline replaces every call of a function that the model itself defines by the function's nodes, in subgraphs too,
// and drops the functions. Operator sets that the functions import become the model's. The model is changed in place;
// on error it is as before.
func Inline(m *onnxpb.ModelProto) error {
	if len(m.GetFunctions()) == 0 {
		return nil
	}
	if m.GetGraph() == nil {
		return errors.New("the model has no graph")
	}
	in, err := newInliner(m)
	if err != nil {
		return err
	}
	graphs := []*onnxpb.GraphProto{m.Graph}
	for _, t := range m.GetTrainingInfo() {
		graphs = append(graphs, t.GetInitialization(), t.GetAlgorithm())
	}
	var commit []func()
	for _, g := range graphs {
		if g == nil {
			continue
		}
		nodes, infos, err := in.graph(g.GetNode(), 0)
		if err != nil {
			return err
		}
		if nesting(nodes) > maxNesting {
			return fmt.Errorf("with the functions put in, graphs nest more than %d deep", maxNesting)
		}
		commit = append(commit, func() { g.Node, g.ValueInfo = nodes, append(g.ValueInfo, infos...) })
	}
	for _, fn := range commit {
		fn()
	}
	m.OpsetImport = in.imports(m, graphs)
	m.Functions = nil
	return nil
}

// call is what a node names a function by.
type call struct{ domain, name, overload string }

func callOf(n *onnxpb.NodeProto) call {
	return call{domainOf(n.GetDomain()), n.GetOpType(), n.GetOverload()}
}

func (c call) String() string { return c.domain + "." + c.name }

// domainOf gives the two spellings of ONNX's own domain as one.
func domainOf(domain string) string {
	if IsStandard(domain) {
		return ""
	}
	return domain
}

type inliner struct {
	functions     map[call]*onnxpb.FunctionProto
	versions      map[string]int64 // operator sets by domain: the model's, and of functions what it lacks
	added         []*onnxpb.OperatorSetIdProto
	values, names namer         // of values and of nodes, in all graphs
	used          map[call]bool // functions that were checked
	nodes         int
	room          int64                    // bytes that may still be added
	infos         []*onnxpb.ValueInfoProto // of the graph at hand
}

func newInliner(m *onnxpb.ModelProto) (*inliner, error) {
	in := &inliner{functions: map[call]*onnxpb.FunctionProto{}, versions: map[string]int64{}, used: map[call]bool{}, room: maxGrowth + 4*int64(proto.Size(m))}
	for _, f := range m.GetFunctions() {
		c := call{domainOf(f.GetDomain()), f.GetName(), f.GetOverload()}
		if in.functions[c] != nil {
			return nil, fmt.Errorf("two functions are called %s", c)
		}
		in.functions[c] = f
	}
	for _, o := range m.GetOpsetImport() {
		if d := domainOf(o.GetDomain()); in.versions[d] == 0 {
			in.versions[d] = o.GetVersion()
		}
	}
	taken := Graph{taken: map[string]bool{}, values: map[string]bool{}, nodes: map[string]bool{}}
	taken.collect(m.Graph)
	for _, t := range m.GetTrainingInfo() {
		taken.collect(t.GetInitialization())
		taken.collect(t.GetAlgorithm())
	}
	in.values, in.names = namer{taken.values, map[string]int{}}, namer{taken.nodes, map[string]int{}}
	return in, in.acyclic()
}

// acyclic refuses functions that call themselves, over others or not.
func (in *inliner) acyclic() error {
	done := map[call]bool{}
	var path []call
	var visit func(c call) error
	visit = func(c call) error {
		if i := slices.Index(path, c); i >= 0 {
			var names []string
			for _, p := range append(path[i:], c) {
				names = append(names, p.String())
			}
			return fmt.Errorf("function %s calls itself: %s", c, strings.Join(names, " -> "))
		}
		f := in.functions[c]
		if f == nil || done[c] {
			return nil
		}
		path = append(path, c)
		if len(path) > maxCalls {
			return fmt.Errorf("function %s: calls of functions nest more than %d deep", path[0], maxCalls)
		}
		defer func() { path = path[:len(path)-1] }()
		var err error
		eachNode(f.GetNode(), func(n *onnxpb.NodeProto) {
			if err == nil {
				err = visit(callOf(n))
			}
		})
		for _, g := range Subgraphs(&onnxpb.NodeProto{Attribute: f.GetAttributeProto()}) {
			eachNode(g.GetNode(), func(n *onnxpb.NodeProto) {
				if err == nil {
					err = visit(callOf(n))
				}
			})
		}
		done[c] = true
		return err
	}
	for c := range in.functions {
		if err := visit(c); err != nil {
			return err
		}
	}
	return nil
}

// eachNode visits nodes and those of their subgraphs.
func eachNode(nodes []*onnxpb.NodeProto, visit func(*onnxpb.NodeProto)) {
	for _, n := range nodes {
		visit(n)
		for _, g := range Subgraphs(n) {
			eachNode(g.GetNode(), visit)
		}
	}
}

// nesting is how deep graphs nest in nodes.
func nesting(nodes []*onnxpb.NodeProto) int {
	most := 0
	for _, n := range nodes {
		for _, g := range Subgraphs(n) {
			most = max(most, 1+nesting(g.GetNode()))
		}
	}
	return most
}

// graph gives the nodes of a graph without calls, and descriptions of the values that the graph gets thereby.
func (in *inliner) graph(nodes []*onnxpb.NodeProto, depth int) ([]*onnxpb.NodeProto, []*onnxpb.ValueInfoProto, error) {
	outer := in.infos
	in.infos = nil
	defer func() { in.infos = outer }()
	out, err := in.list(nodes, depth)
	return out, in.infos, err
}

func (in *inliner) list(nodes []*onnxpb.NodeProto, depth int) ([]*onnxpb.NodeProto, error) {
	if depth > maxCalls {
		return nil, fmt.Errorf("calls of functions nest more than %d deep", maxCalls)
	}
	out := make([]*onnxpb.NodeProto, 0, len(nodes))
	for _, n := range nodes {
		n, err := in.subgraphs(n, depth)
		if err != nil {
			return nil, err
		}
		f := in.functions[callOf(n)]
		if f == nil {
			out = append(out, n)
			continue
		}
		body, err := in.body(n, f)
		if err == nil {
			body, err = in.list(body, depth+1)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Describe(n), err)
		}
		out = append(out, body...)
	}
	return out, nil
}

// subgraphs gives the node itself where its subgraphs call no function, else a copy whose subgraphs no longer do.
func (in *inliner) subgraphs(n *onnxpb.NodeProto, depth int) (*onnxpb.NodeProto, error) {
	calls := false
	for _, g := range Subgraphs(n) {
		eachNode(g.GetNode(), func(n *onnxpb.NodeProto) { calls = calls || in.functions[callOf(n)] != nil })
	}
	if !calls {
		return n, nil
	}
	if err := in.grow(proto.Size(n), 0); err != nil {
		return nil, fmt.Errorf("%s: %w", Describe(n), err)
	}
	n = proto.Clone(n).(*onnxpb.NodeProto)
	for _, g := range Subgraphs(n) {
		nodes, infos, err := in.graph(g.GetNode(), depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Describe(n), err)
		}
		g.Node, g.ValueInfo = nodes, append(g.ValueInfo, infos...)
	}
	return n, nil
}

// grow counts what is added to the model.
func (in *inliner) grow(bytes, nodes int) error {
	in.nodes, in.room = in.nodes+nodes, in.room-int64(bytes)
	if in.nodes > maxInlined || in.room < 0 {
		return fmt.Errorf("the functions make too much of the model: more than %d nodes, or more than %d MiB and four times its size",
			maxInlined, maxGrowth>>20)
	}
	return nil
}

// use checks a function that is called, and that its operators mean the same in the model's operator sets.
func (in *inliner) use(f *onnxpb.FunctionProto) error {
	c := call{domainOf(f.GetDomain()), f.GetName(), f.GetOverload()}
	if in.used[c] {
		return nil
	}
	if err := checkFunction(f); err != nil {
		return fmt.Errorf("function %s: %w", c, err)
	}
	imports := map[string]int64{}
	for _, o := range f.GetOpsetImport() {
		imports[domainOf(o.GetDomain())] = o.GetVersion()
	}
	var err error
	eachNode(f.GetNode(), func(n *onnxpb.NodeProto) {
		d := domainOf(n.GetDomain())
		wants, has := imports[d], in.versions[d]
		switch {
		case err != nil || in.functions[callOf(n)] != nil || wants == has || wants == 0:
		case has == 0:
			in.versions[d] = wants
			in.added = append(in.added, &onnxpb.OperatorSetIdProto{Domain: d, Version: wants})
		default:
			if d == "" {
				d = "ai.onnx"
			}
			err = fmt.Errorf("function %s is written for version %d of operator set %s, the model for version %d: export the model with one version for both",
				c, wants, d, has)
		}
	})
	in.used[c] = err == nil
	return err
}

// imports gives the model's operator sets with those of the functions, and without those that only functions were of.
func (in *inliner) imports(m *onnxpb.ModelProto, graphs []*onnxpb.GraphProto) []*onnxpb.OperatorSetIdProto {
	used := map[string]bool{}
	for _, g := range graphs {
		eachNode(g.GetNode(), func(n *onnxpb.NodeProto) { used[domainOf(n.GetDomain())] = true })
	}
	local := map[string]bool{}
	for c := range in.functions {
		local[c.domain] = c.domain != ""
	}
	return slices.DeleteFunc(append(slices.Clone(m.GetOpsetImport()), in.added...), func(o *onnxpb.OperatorSetIdProto) bool {
		return local[o.GetDomain()] && !used[o.GetDomain()]
	})
}

// namer gives names that are not in use.
type namer struct {
	used map[string]bool
	next map[string]int // next number to try for a name that is taken
}

func (n namer) fresh(name string) string {
	out := name
	for n.used[out] || out == "" {
		n.next[name]++
		out = name + "_" + strconv.Itoa(n.next[name])
	}
	n.used[out] = true
	return out
}
