package refit

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// blockedDomain is the domain of ONNX Runtime's operators on blocked values: a value [N, C, H, W] whose memory is
// [N, C/block, H, W, block]. ReorderInput and ReorderOutput change between this layout and the plain one.
const blockedDomain = "com.microsoft.nchwc"

// blockSize is the number of channels of a block, which depends on the processor; 0 where the graph does not tell. A
// blocked kernel lists the output channels of a block side by side, which in the weight lie far apart.
func blockSize(m *onnxpb.ModelProto, parts map[string][]run) int64 {
	size := int64(0)
	for _, n := range m.Graph.Node {
		if n.Domain != blockedDomain || n.OpType != "Conv" {
			continue
		}
		for _, r := range parts[n.Input[1]] {
			if r.stride != 1 {
				size = max(size, int64(r.n))
			}
		}
	}
	if size != 8 && size != 16 {
		return 0
	}
	return size
}

// rewriter changes a graph so that values stay blocked where ONNX Runtime's own optimiser gives up: where the phases of
// a strided gradient are put in their places, and in the element-wise operators behind that.
type rewriter struct {
	g      *ir.Graph
	block  int64
	makers map[string]*onnxpb.NodeProto
	users  map[string]int
	shapes map[string][]int64 // small constants of integers
	single map[string]bool    // constants of one element
	list   []*onnxpb.NodeProto
}

// stayBlocked rewrites the graph of an optimised model. Values do not change, only where they lie in memory.
func stayBlocked(m *onnxpb.ModelProto, block int64) {
	if block == 0 {
		return
	}
	g, err := ir.NewGraph(m)
	if err != nil {
		return
	}
	r := &rewriter{g: g, block: block, makers: map[string]*onnxpb.NodeProto{}, users: map[string]int{},
		shapes: map[string][]int64{}, single: map[string]bool{}}
	for _, t := range m.Graph.Initializer {
		if v, err := ir.Int64s(t); err == nil && len(v) < 8 {
			r.shapes[t.GetName()] = v
		}
		n, ok := ir.Elements(t.GetDims())
		r.single[t.GetName()] = ok && n == 1
	}
	for _, n := range m.Graph.Node {
		for _, out := range n.Output {
			r.makers[out] = n
		}
		for _, in := range n.Input {
			r.users[in]++
		}
	}
	for _, v := range m.Graph.Output {
		r.users[v.GetName()]++
	}
	nodes := m.Graph.Node
	m.Graph.Node = nil
	for _, n := range sorted(nodes) {
		if !r.interleave(n) && !r.elementwise(n) && !r.cancel(n) {
			m.Graph.Node = append(m.Graph.Node, n)
		}
	}
	m.Graph.ValueInfo = nil // states shapes that have changed
	ir.Prune(m)
}

// sorted puts nodes into an order in which each comes behind those that it reads from; the library saves them so
// already, but does not promise it.
func sorted(nodes []*onnxpb.NodeProto) []*onnxpb.NodeProto {
	made := map[string]bool{}
	for _, n := range nodes {
		for _, out := range n.Output {
			made[out] = true
		}
	}
	done := map[string]bool{}
	var list []*onnxpb.NodeProto
	for len(nodes) > 0 {
		var rest []*onnxpb.NodeProto
		for _, n := range nodes {
			if slices.ContainsFunc(n.Input, func(in string) bool { return made[in] && !done[in] }) {
				rest = append(rest, n)
				continue
			}
			list = append(list, n)
			for _, out := range n.Output {
				done[out] = true
			}
		}
		if len(rest) == len(nodes) {
			return append(list, rest...)
		}
		nodes = rest
	}
	return list
}

// blocked gives the blocked value that a plain one was made from, and its channels, which fill their blocks.
func (r *rewriter) blocked(name string) (from string, channels int64, ok bool) {
	n := r.makers[name]
	if n == nil || n.Domain != blockedDomain || n.OpType != "ReorderOutput" || ir.AttrInt(n, "channels_last", 0) != 0 {
		return "", 0, false
	}
	channels = ir.AttrInt(n, "channels", 0)
	return n.Input[0], channels, channels > 0 && channels%r.block == 0
}

// plain adds the change to the plain layout, under the name that the value had, so that all its users still find it.
func (r *rewriter) plain(from, to string, channels int64) {
	n := r.g.AddNamed(to+".plain", "ReorderOutput", []string{from}, []string{to}, ir.Int("channels", channels), ir.Int("channels_last", 0))
	n.Domain = blockedDomain
	r.makers[to] = n
}

// add adds a node of the standard operators.
func (r *rewriter) add(op string, inputs []string, attrs ...*onnxpb.AttributeProto) string {
	return r.g.Add(op, inputs, attrs...)
}

// cancel drops a change to the blocked layout of a value that was blocked before.
func (r *rewriter) cancel(n *onnxpb.NodeProto) bool {
	if n.Domain != blockedDomain || n.OpType != "ReorderInput" || ir.AttrInt(n, "channels_last", 0) != 0 {
		return false
	}
	from, _, ok := r.blocked(n.Input[0])
	if !ok {
		return false
	}
	r.g.AddNamed(n.GetName(), "Identity", []string{from}, n.Output)
	return true
}

var unary = []string{"Abs", "Clip", "Elu", "Exp", "HardSigmoid", "LeakyRelu", "Neg", "Relu", "Sigmoid", "Tanh"}
var binary = []string{"Add", "Div", "Max", "Min", "Mul", "Sub"}

// elementwise moves an element-wise operator in front of the changes to the plain layout of its inputs. Other inputs
// must be constants of one element.
func (r *rewriter) elementwise(n *onnxpb.NodeProto) bool {
	if !ir.IsStandard(n.GetDomain()) || !slices.Contains(unary, n.OpType) && !slices.Contains(binary, n.OpType) || len(n.Output) != 1 {
		return false
	}
	channels := int64(0)
	inputs := slices.Clone(n.Input)
	for i, in := range n.Input {
		from, c, ok := r.blocked(in)
		switch {
		case ok && (channels == 0 || c == channels):
			inputs[i], channels = from, c
		case in == "" || r.single[in]:
		default:
			return false
		}
	}
	if channels == 0 {
		return false
	}
	r.plain(r.add(n.OpType, inputs, n.Attribute...), n.Output[0], channels)
	return true
}

// interleave recognises the last node of gradient's phases of a strided convolution,
//
//	Reshape(Concat_3(Reshape(Concat_1(Reshape(phase, [-1,1]), ...), [-1, C, h, 1, W]), ...), [-1, C, H, W]),
//
// whose phases were changed to the plain layout, and puts blocks in their places instead of single numbers.
func (r *rewriter) interleave(n *onnxpb.NodeProto) bool {
	shape, rows := r.reshaped(n), r.concat(n.Input[0], 3)
	if len(shape) != 4 || len(rows) == 0 || shape[0] != -1 || shape[1]%r.block != 0 {
		return false
	}
	channels := shape[1]
	var blockRows []string
	for _, row := range rows {
		maker := r.makers[row]
		if maker == nil {
			return false
		}
		to := r.reshaped(maker)
		if len(to) != 5 || to[0] != -1 || to[1] != channels || to[3] != 1 {
			return false
		}
		phases := r.phases(maker.Input[0], channels)
		if phases == nil {
			return false
		}
		blockRows = append(blockRows, r.row(phases, []int64{-1, channels / r.block, to[2], 1, to[4] * r.block}))
	}
	whole := r.add("Concat", blockRows, ir.Int("axis", 3))
	r.plain(r.add("Reshape", []string{whole, r.ints(shape)}), n.Output[0], channels)
	return true
}

// row puts the blocks of the phases of a row side by side.
func (r *rewriter) row(phases []string, shape []int64) string {
	var parts []string
	for _, p := range phases {
		parts = append(parts, r.add("Reshape", []string{p, r.ints([]int64{-1, r.block})}))
	}
	return r.add("Reshape", []string{r.add("Concat", parts, ir.Int("axis", 1)), r.ints(shape)})
}

// phases gives the blocked values that the numbers of a row come from; nil where it is no such row.
func (r *rewriter) phases(row string, channels int64) []string {
	var out []string
	for _, in := range r.concat(row, 1) {
		n := r.makers[in]
		if n == nil || !slices.Equal(r.reshaped(n), []int64{-1, 1}) {
			return nil
		}
		from, c, ok := r.blocked(n.Input[0])
		if !ok || c != channels {
			return nil
		}
		out = append(out, from)
	}
	return out
}

// reshaped gives the constant shape that a Reshape makes; nil for another node.
func (r *rewriter) reshaped(n *onnxpb.NodeProto) []int64 {
	if n.OpType != "Reshape" || !ir.IsStandard(n.GetDomain()) || ir.AttrInt(n, "allowzero", 0) != 0 {
		return nil
	}
	return r.shapes[n.Input[1]]
}

// concat gives the inputs of the Concat along an axis that makes a value for one user.
func (r *rewriter) concat(name string, axis int64) []string {
	n := r.makers[name]
	if n == nil || n.OpType != "Concat" || !ir.IsStandard(n.GetDomain()) || ir.AttrInt(n, "axis", 0) != axis {
		return nil
	}
	return n.Input
}

// ints is a constant list.
func (r *rewriter) ints(v []int64) string {
	name, err := r.g.Constant(ir.Int64Tensor("blocked_shape", v...))
	if err != nil {
		return ""
	}
	return name
}
