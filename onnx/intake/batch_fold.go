package intake

import (
	"context"
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/gradient"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// listed are the operators whose inputs behind the first are lists of int64: shapes, axes, where a slice begins.
var listed = []string{"Reshape", "Expand", "Squeeze", "Unsqueeze", "Slice"}

// foldSizes replaces the lists that the graph computes from nothing but constants by the constants that they are, so
// that the batch size is seen in them. ONNX Runtime computes them.
func (a *adapter) foldSizes(ctx context.Context) error {
	moving := map[string]bool{a.input: true}
	types := gradient.Types(a.m)
	var names []string
	var users []*onnxpb.NodeProto
	for _, n := range a.m.Graph.Node {
		if dependsOn(n, moving) {
			for _, out := range n.Output {
				moving[out] = true
			}
		}
		if !slices.Contains(listed, n.OpType) || !ir.IsStandard(n.Domain) {
			continue
		}
		for _, in := range n.Input[min(1, len(n.Input)):] {
			if in != "" && !moving[in] && a.constant(in) == nil && types[in].Elem == ir.Int64 {
				names, users = append(names, in), append(users, n)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	found, err := a.fold(ctx, distinct(names))
	if err != nil {
		return err
	}
	for i, n := range users {
		c, err := a.g.Constant(ir.Int64Tensor(names[i]+"_folded", found[names[i]]...))
		if err != nil {
			return err
		}
		for k := range n.Input {
			if k > 0 && n.Input[k] == names[i] {
				n.Input[k] = c
			}
		}
	}
	return nil
}

// dependsOn says whether a node, or a graph in it, uses one of some values.
func dependsOn(n *onnxpb.NodeProto, values map[string]bool) bool {
	if slices.ContainsFunc(n.GetInput(), func(in string) bool { return values[in] }) {
		return true
	}
	return slices.ContainsFunc(ir.Subgraphs(n), func(sub *onnxpb.GraphProto) bool {
		return slices.ContainsFunc(sub.GetNode(), func(n *onnxpb.NodeProto) bool { return dependsOn(n, values) }) ||
			slices.ContainsFunc(sub.GetOutput(), func(v *onnxpb.ValueInfoProto) bool { return values[v.GetName()] })
	})
}

// fold computes lists that do not depend on the input. Sizes are small enough for float32; what is not means "to the end".
func (a *adapter) fold(ctx context.Context, names []string) (map[string][]int64, error) {
	s, outputs, err := a.session(a.m, names)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	call, err := s.Bind([]string{lower.InputX}, outputs)
	if err != nil {
		return nil, err
	}
	in, err := ort.Float32(append([]int64{int64(max(a.batch, 1))}, sizes(a.c.Preprocess.SampleShape)...), nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out := make([]*ort.Tensor, len(names))
	if err := call.Run(ctx, []*ort.Tensor{in}, out); err != nil {
		return nil, err
	}
	lists := map[string][]int64{}
	for i, t := range out {
		for _, v := range t.Data() {
			n := int64(max(v, math.MinInt32))
			if v >= 1<<62 {
				n = math.MaxInt64
			}
			lists[names[i]] = append(lists[names[i]], n)
		}
		t.Close()
	}
	return lists, nil
}
