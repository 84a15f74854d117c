package intake

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/gradient"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// freer makes the batch axis of a graph free: in the input, and where exporters wrote the batch size as a number into
// the shapes of Reshape and Expand and into constants. Whether that was enough is proved on the probe.
type freer struct {
	*adapter
	fixed  map[string]gradient.Type // with the batch size of the file
	types  map[string]gradient.Type // with the free one; nil after a change
	shared map[string]place         // by the name of an axis: those that rows share with something else
	moving map[string]bool          // values that depend on the input
}

// place is where the rows of the batch lie in a value: its axis has lead times N times tail elements, in this order. A
// sequence of T tokens for each of N rows that was joined into one axis has lead T or tail T.
type place struct{ axis, lead, tail int }

// rowsName is the name of the batch axis.
const rowsName = "N"

func (a *adapter) freeBatch() {
	f := &freer{adapter: a, fixed: gradient.Types(a.m), shared: map[string]place{}, moving: map[string]bool{a.input: true}}
	dim := a.m.Graph.Input[0].GetType().GetTensorType().GetShape().GetDim()[0]
	dim.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: rowsName}
	for _, v := range a.m.Graph.Output { // their shapes have the batch size
		if t := v.GetType().GetTensorType(); t != nil {
			t.Shape = nil
		}
	}
	nodes := a.m.Graph.Node
	for i := 0; i < len(nodes); i++ {
		n := nodes[i]
		if !slices.ContainsFunc(n.GetInput(), func(in string) bool { return f.moving[in] }) {
			continue
		}
		for _, out := range n.GetOutput() {
			f.moving[out] = true
		}
		if !ir.IsStandard(n.GetDomain()) || len(n.GetOutput()) == 0 {
			continue
		}
		a.m.Graph.Node = nodes
		f.node(n)
		added := slices.Clone(a.m.Graph.Node[len(nodes):])
		nodes = slices.Insert(slices.Clip(nodes), i, added...)
		a.m.Graph.Node = nodes
		if i += len(added); len(added) > 0 {
			f.types = nil // they stood behind what uses them
		}
	}
}

// node changes a node, and may append others that must run before it.
func (f *freer) node(n *onnxpb.NodeProto) {
	switch n.GetOpType() {
	case "Reshape":
		if len(n.Input) == 2 && f.moving[n.Input[0]] {
			f.reshape(n)
		}
	case "Expand":
		if len(n.Input) == 2 && f.moving[n.Input[0]] {
			f.expand(n)
		}
	case "Squeeze":
		f.squeeze(n)
	case "Concat":
		f.concat(n)
	case "Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Where", "PRelu":
		f.broadcast(n)
	case "LSTM", "GRU", "RNN":
		f.states(n)
	}
}

// typeOf is what is known of a value with a free batch.
func (f *freer) typeOf(name string) gradient.Type {
	if f.types == nil {
		f.types = gradient.Types(f.m)
	}
	return f.types[name]
}

// rows says where the rows lie in a value: in the only axis whose size is not known. False where that cannot be told.
func (f *freer) rows(name string) (place, bool) {
	t := f.typeOf(name)
	axis := slices.IndexFunc(t.Shape, func(d ir.Dim) bool { return !d.Set })
	if !t.Ranked || axis < 0 || slices.ContainsFunc(t.Shape[axis+1:], func(d ir.Dim) bool { return !d.Set }) {
		return place{}, false
	}
	d := t.Shape[axis]
	if p, ok := f.shared[d.Name]; ok {
		p.axis = axis
		return p, true
	}
	p := place{axis, 1, 1}
	if before, ok := f.fixed[name].Static(); ok && len(before) == len(t.Shape) && d.Name != rowsName {
		p.tail = int(before[axis]) / f.batch
	}
	return p, p.tail > 0
}

// constantSizes gives the integers of a constant.
func (f *freer) constantSizes(name string) []int64 {
	t := f.constant(name)
	if t == nil {
		return nil
	}
	v, err := ir.Int64s(t)
	if err != nil {
		return nil
	}
	return v
}

// setSizes gives a node another constant as its second input.
func (f *freer) setSizes(n *onnxpb.NodeProto, sizes []int64) {
	if name, err := f.g.Constant(ir.Int64Tensor(n.Input[1]+"_free", sizes...)); err == nil {
		n.Input[1], f.types = name, nil
	}
}

// expand leaves the axis of the rows as it is: the size 1 does that.
func (f *freer) expand(n *onnxpb.NodeProto) {
	p, ok := f.rows(n.Input[0])
	to := slices.Clone(f.constantSizes(n.Input[1]))
	at := len(to) - len(f.typeOf(n.Input[0]).Shape) + p.axis
	if ok && at >= 0 && at < len(to) && to[at] == int64(f.batch*p.lead*p.tail) {
		to[at] = 1
		f.setSizes(n, to)
	}
}

// squeeze keeps the axis of the rows, which a batch of 1 lets go.
func (f *freer) squeeze(n *onnxpb.NodeProto) {
	p, ok := f.rows(n.Input[0])
	if !ok {
		return
	}
	rank := int64(len(f.typeOf(n.Input[0]).Shape))
	isRows := func(axis int64) bool { return axis == int64(p.axis) || axis+rank == int64(p.axis) }
	attr, axes := ir.Attr(n, "axes"), ir.AttrInts(n, "axes")
	if len(n.Input) > 1 {
		axes = f.constantSizes(n.Input[1])
	}
	if !slices.ContainsFunc(axes, isRows) {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(axes), isRows)
	switch {
	case len(kept) == 0:
		n.OpType, n.Input, n.Attribute = "Identity", n.Input[:1], nil
	case attr != nil:
		attr.Ints = kept
	default:
		f.setSizes(n, kept)
	}
	f.types = nil
}

// concat repeats for each row what is joined to rows and is the same for all, such as the class token of a transformer.
func (f *freer) concat(n *onnxpb.NodeProto) {
	var guide string
	var p place
	for _, in := range n.Input {
		if q, ok := f.rows(in); ok && f.moving[in] {
			guide, p = in, q
		}
	}
	if guide == "" || ir.Opset(f.m) < 8 {
		return
	}
	rank := len(f.typeOf(guide).Shape)
	if axis := int(ir.AttrInt(n, "axis", 0)); axis == p.axis || axis+rank == p.axis {
		return
	}
	for i, in := range n.Input {
		t := f.typeOf(in)
		if f.moving[in] || !t.Ranked || len(t.Shape) != rank || !t.Shape[p.axis].Is(int64(f.batch*p.lead*p.tail)) || p.lead*p.tail != 1 {
			continue
		}
		n.Input[i] = f.repeat(f.first(in, p.axis), guide, p.axis, rank)
	}
}

// states repeats for each row what a recurrent layer starts from: its inputs [directions, N, hidden], where the sequence
// is [T, N, ...].
func (f *freer) states(n *onnxpb.NodeProto) {
	p, ok := f.rows(n.Input[0])
	if !ok || p != (place{1, 1, 1}) || ir.AttrInt(n, "layout", 0) != 0 || ir.Opset(f.m) < 8 {
		return
	}
	for i := 5; i < len(n.Input) && i < 7; i++ {
		if t := f.typeOf(n.Input[i]); !f.moving[n.Input[i]] && t.Ranked && len(t.Shape) == 3 && t.Shape[1].Is(int64(f.batch)) {
			n.Input[i] = f.repeat(f.first(n.Input[i], 1), n.Input[0], 1, 3)
		}
	}
}

// broadcast lets rows share a constant that the file has once for each row.
func (f *freer) broadcast(n *onnxpb.NodeProto) {
	if f.batch == 1 {
		return
	}
	out := f.fixed[n.Output[0]]
	var behind int // axes from that of the rows to the end
	for _, in := range n.Input {
		if p, ok := f.rows(in); ok && f.moving[in] {
			behind = len(f.typeOf(in).Shape) - p.axis
		}
	}
	if behind == 0 || !out.Ranked {
		return
	}
	for i, in := range n.Input {
		t := f.typeOf(in)
		if axis := len(t.Shape) - behind; !f.moving[in] && t.Ranked && axis >= 0 && t.Shape[axis].Is(int64(f.batch)) {
			n.Input[i] = f.first(in, axis)
		}
	}
}

// first adds a node that takes the first element of an axis and keeps the axis.
func (f *freer) first(name string, axis int) string {
	if f.batch == 1 {
		return name
	}
	f.types = nil
	zero, _ := f.g.Constant(ir.Int64Tensor("first_row", 0))
	return f.g.Add("Gather", []string{name, zero}, ir.Int("axis", int64(axis)))
}

// repeat adds nodes that repeat a value of size 1 along an axis as often as another value has elements there.
func (f *freer) repeat(name, guide string, axis, rank int) string {
	f.types = nil
	at, _ := f.g.Constant(ir.Int64Tensor("row_axis", int64(axis)))
	parts := []string{f.g.Add("Gather", []string{f.g.Add("Shape", []string{guide}), at}, ir.Int("axis", 0))}
	ones := func(n int) []string {
		if n == 0 {
			return nil
		}
		c, _ := f.g.Constant(ir.Int64Tensor("ones", slices.Repeat([]int64{1}, n)...))
		return []string{c}
	}
	parts = slices.Concat(ones(axis), parts, ones(rank-axis-1))
	return f.g.Add("Expand", []string{name, f.g.Add("Concat", parts, ir.Int("axis", 0))})
}
