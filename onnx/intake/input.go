package intake

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
)

// reserved are the names of values that a finished model has.
var reserved = []string{lower.InputX, lower.ModelX, lower.InputTarget, lower.OutputLogits, lower.OutputEnergy,
	lower.OutputFeatures, lower.OutputScore, lower.OutputLogDensity, lower.LogSumExp}

// value is the name that a value of the file has now.
func (a *adapter) value(name string) string {
	if to, ok := a.names[name]; ok {
		return to
	}
	return name
}

// original is the name that a value has in the file.
func (a *adapter) original(name string) string {
	for from, to := range a.names {
		if to == name {
			return from
		}
	}
	return name
}

// takeInput puts the input x and the preprocessing in front of the model.
func (a *adapter) takeInput() error {
	in, err := a.pickInput()
	if err != nil {
		return err
	}
	elem, err := a.readInput(in)
	if err != nil {
		return err
	}
	old := in.GetName()
	a.vacate()
	inside := in.GetName() // what the input may have had to be called
	a.m.Graph.Input = slices.DeleteFunc(a.m.Graph.Input, func(v *onnxpb.ValueInfoProto) bool { return v == in })
	a.m.Graph.ValueInfo = nil // they state the old batch size and element type
	nodes := a.m.Graph.Node
	a.m.Graph.Node = nil
	rows := ir.Free(rowsName)
	if a.batch > 0 {
		rows = ir.Fixed(int64(a.batch))
	}
	if err := a.g.Input(lower.InputX, ir.Float32, append([]ir.Dim{rows}, ir.FixedDims(sizes(a.c.Preprocess.SampleShape)...)...)...); err != nil {
		return err
	}
	if a.c.Space, err = a.c.Preprocess.Add(a.g, lower.InputX, a.c.Input, lower.ModelX); err != nil {
		return fmt.Errorf("preprocessing: %w", err)
	}
	at := a.c.Space
	if elem != ir.Float32 && !(isInteger(elem) && onlyCast(nodes, inside)) {
		if isInteger(elem) {
			a.c.Notes = append(a.c.Notes, fmt.Sprintf("input %s is %s and used as such, so no gradient reaches it", old, ir.ElemName(elem)))
		}
		at = a.g.Add("Cast", []string{at}, ir.Int("to", int64(elem)))
	}
	a.m.Graph.Node = append(a.m.Graph.Node, nodes...)
	a.g.Redirect(inside, at)
	a.names[old] = at
	return nil
}

// vacate makes the reserved names free for the values and nodes of this package.
func (a *adapter) vacate() {
	for _, name := range reserved {
		if to := a.g.Vacate(name); to != name {
			a.names[name] = to
		}
	}
	for _, n := range a.m.Graph.Node {
		if slices.Contains(reserved, n.GetName()) {
			n.Name = a.g.Unique(n.GetName())
		}
	}
}

// mostValues is how many values a batch may have: 2 GiB of float32.
const mostValues = 1 << 29

// readInput reads the element type, batch size and sample shape of the input.
func (a *adapter) readInput(in *onnxpb.ValueInfoProto) (elem int32, err error) {
	name := in.GetName()
	elem, dims, ranked := ir.TensorType(in)
	switch {
	case in.GetType().GetTensorType() == nil:
		return 0, fmt.Errorf("input %s is no tensor", name)
	case !isInteger(elem) && !ir.IsFloat(elem):
		return 0, fmt.Errorf("input %s has element type %s, want numbers", name, ir.ElemName(elem))
	case !ranked:
		return 0, fmt.Errorf("the file does not state the shape of input %s, want [N, ...]: run ONNX shape inference on it, or export it with shapes", name)
	case len(dims) < 2:
		return 0, fmt.Errorf("input %s has shape %s, want [N, ...]: a batch axis and the axes of a sample", name, dimsText(dims))
	}
	a.batch = a.assumed
	if dims[0].Set {
		if dims[0].Size > int64(mostValues/a.width) {
			return 0, fmt.Errorf("input %s has shape %s, a batch that no memory holds: export the model with a free batch axis", name, dimsText(dims))
		}
		a.batch = int(dims[0].Size)
	}
	if a.c.Input, err = a.sampleShape(name, dims[1:]); err != nil {
		return 0, err
	}
	if err := a.layout(); err != nil {
		return 0, fmt.Errorf("input %s: %w", name, err)
	}
	return elem, nil
}

// pickInput chooses the input of the samples.
func (a *adapter) pickInput() (*onnxpb.ValueInfoProto, error) {
	var list []string
	for _, v := range a.m.Graph.Input {
		list = append(list, v.GetName())
	}
	name := a.cfg.Input
	switch {
	case len(list) == 0:
		return nil, fmt.Errorf("the model has no inputs")
	case len(list) > 1:
		return nil, fmt.Errorf("the model has the inputs %s: a classifier of samples has one; make the others constants of the graph", strings.Join(list, ", "))
	case name != "" && name != list[0]:
		return nil, fmt.Errorf("the model has no input %q; its input is %q", name, list[0])
	}
	return a.m.Graph.Input[0], nil
}

// sampleShape is the shape of a sample, where the file leaves axes open by that of the raw samples.
func (a *adapter) sampleShape(name string, dims []ir.Dim) ([]int, error) {
	raw := a.cfg.Preprocess.SampleShape
	candidates := [][]int{raw}
	if len(raw) == 3 {
		candidates = append(candidates, []int{raw[2], raw[0], raw[1]}, []int{raw[1], raw[2], raw[0]})
	}
	if len(raw) == 2 {
		candidates = append(candidates, []int{1, raw[0], raw[1]}, []int{raw[0], raw[1], 1})
	}
	candidates = append(candidates, []int{a.width})
	if fixed, ok := fixedShape(dims); ok {
		candidates = [][]int{fixed}
	}
	for _, c := range candidates {
		if len(c) == len(dims) && agrees(dims, c) && size(c) == a.width {
			return c, nil
		}
	}
	return nil, fmt.Errorf("input %s takes samples of shape %s, which %d values of shape %v cannot fill: check the data set, or state its shape",
		name, dimsText(dims), a.width, raw)
}

func agrees(dims []ir.Dim, shape []int) bool {
	for i, d := range dims {
		if d.Set && int(d.Size) != shape[i] {
			return false
		}
	}
	return true
}

func fixedShape(dims []ir.Dim) ([]int, bool) {
	out := make([]int, len(dims))
	for i, d := range dims {
		if !d.Set {
			return nil, false
		}
		out[i] = int(d.Size)
	}
	return out, true
}

func dimsText(dims []ir.Dim) string {
	out := make([]string, len(dims))
	for i, d := range dims {
		out[i] = "?"
		if d.Set {
			out[i] = fmt.Sprint(d.Size)
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// layout fills in what of the preprocessing the shapes decide.
func (a *adapter) layout() error {
	p, in := &a.c.Preprocess, a.c.Input
	if p.Scale == 0 {
		p.Scale = 1
	}
	if p.Mean == nil {
		p.Mean = []float64{0}
	}
	if p.Std == nil {
		p.Std = []float64{1}
	}
	if p.InputLayout == "" && len(in) == 3 {
		p.InputLayout = "chw"
		channelsLast := len(p.SampleShape) == 2 && in[2] == 1 && in[0] != 1 ||
			len(p.SampleShape) == 3 && slices.Equal(p.SampleShape, in) && p.Layout == "hwc" ||
			len(p.SampleShape) == 3 && p.Layout == "chw" && !slices.Equal(p.SampleShape, in) && in[2] == p.SampleShape[0]
		if channelsLast {
			p.InputLayout = "hwc"
		}
	}
	return p.Check(in)
}

func isInteger(elem int32) bool {
	switch onnxpb.TensorProto_DataType(elem) {
	case onnxpb.TensorProto_UINT8, onnxpb.TensorProto_INT8, onnxpb.TensorProto_UINT16, onnxpb.TensorProto_INT16,
		onnxpb.TensorProto_INT32, onnxpb.TensorProto_INT64, onnxpb.TensorProto_UINT32, onnxpb.TensorProto_UINT64:
		return true
	}
	return false
}

// movers only move values, so that they work on any element type.
var movers = []string{"Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice"}

// onlyCast says whether an integer input is only moved about until it is cast to floating point, so that it may as well
// be given as floating point.
func onlyCast(nodes []*onnxpb.NodeProto, input string) bool {
	moved := map[string]bool{input: true}
	for _, n := range nodes {
		if len(ir.Subgraphs(n)) > 0 {
			return false
		}
		at := slices.IndexFunc(n.GetInput(), func(in string) bool { return moved[in] })
		if at < 0 {
			continue
		}
		switch {
		case n.GetOpType() == "Cast" && ir.IsFloat(int32(ir.AttrInt(n, "to", 0))):
		case at == 0 && slices.Contains(movers, n.GetOpType()) && len(n.GetOutput()) == 1:
			moved[n.Output[0]] = true
		case n.GetOpType() == "Shape":
		default:
			return false
		}
	}
	return true
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func sizes(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, d := range shape {
		out[i] = int64(d)
	}
	return out
}
