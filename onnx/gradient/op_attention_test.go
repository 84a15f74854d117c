package gradient

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// noKeys says which of 2 queries see which of 3 keys. The second sees none.
func noKeys() *onnxpb.TensorProto {
	return &onnxpb.TensorProto{Name: "mask", DataType: ir.Bool, Dims: []int64{2, 3}, RawData: []byte{1, 0, 1, 0, 0, 0}}
}

// filled says how many of the keys of each example are in use.
func filled() *onnxpb.TensorProto { return ir.Int64Tensor("filled", 3, 2) }

func TestAttention(t *testing.T) {
	attrs := func(list ...*onnxpb.AttributeProto) []*onnxpb.AttributeProto { return list }
	q, kv := []int64{2, 1, 2, 2}, []int64{2, 1, 3, 2}
	plain := [][]int64{q, kv, {2, 1, 3, 1}}
	past := [][]int64{{1, 1, 2, 2}, {1, 1, 2, 2}, {1, 1, 2, 1}, {1, 1, 1, 2}, {1, 1, 1, 1}}
	for _, k := range []jacobianCase{
		{name: "4 axes", shapes: plain},
		{name: "batch", shapes: plain, dims: [][]int64{{-1, 1, 2, 2}, {-1, 1, 3, 2}, {-1, 1, 3, 1}}},
		{name: "tokens", shapes: plain, dims: [][]int64{{2, 1, -1, 2}, {2, 1, -1, 2}, {2, 1, -1, 1}}, attrs: attrs(ir.Int("is_causal", 1))},
		{name: "scale and softcap", shapes: plain, attrs: attrs(ir.Float("scale", 0.5), ir.Float("softcap", 2))},
		{name: "shared heads", shapes: [][]int64{{1, 4, 2, 2}, {1, 2, 2, 2}, {1, 2, 2, 1}}},
		{name: "3 axes", shapes: [][]int64{{1, 2, 8}, {1, 3, 4}, {1, 3, 2}}, attrs: attrs(ir.Int("q_num_heads", 4), ir.Int("kv_num_heads", 2))},
		{name: "mask", shapes: append(plain[:3:3], []int64{2, 1, 2, 3}), args: []string{"x0", "x1", "x2", "x3"}},
		{name: "mask of nothing", shapes: plain, args: []string{"x0", "x1", "x2", "mask"}, tensors: []*onnxpb.TensorProto{noKeys()}},
		{name: "past causal", shapes: past, args: []string{"x0", "x1", "x2", "", "x3", "x4"}, attrs: attrs(ir.Int("is_causal", 1))},
		{name: "filled", opset: 24, shapes: plain, args: []string{"x0", "x1", "x2", "", "", "", "filled"}, tensors: []*onnxpb.TensorProto{filled()}},
		{
			name: "filled causal", opset: 24, shapes: append(plain[:3:3], []int64{2, 1, 2, 3}), attrs: attrs(ir.Int("is_causal", 1)),
			args: []string{"x0", "x1", "x2", "x3", "", "", "filled"}, tensors: []*onnxpb.TensorProto{filled()},
		},
	} {
		k.op, k.single, k.static = "Attention", true, true
		if k.opset == 0 {
			k.opset = 23
		}
		if len(k.args) == 6 { // ONNX Runtime wants to give the keys and values where it gets some.
			k.build = func(g *ir.Graph, args []string) {
				g.AddNamed("the_node", "Attention", args, []string{"y", "keys", "values"}, k.attrs...)
			}
		}
		checkJacobian(t, k)
	}
}

// The further outputs carry gradients too: the keys and values with those before, and the scores at four stages.
func TestAttentionOutputs(t *testing.T) {
	for mode := range int64(4) {
		k := jacobianCase{
			op: "Attention", name: fmt.Sprintf("mode %d ", mode), opset: 23, single: true, static: true,
			shapes: [][]int64{{1, 1, 2, 2}, {1, 1, 2, 2}, {1, 1, 2, 2}, {2, 3}, {1, 1, 1, 2}, {1, 1, 1, 2}},
		}
		k.build = func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", "Attention", args, []string{"h", "keys", "values", "scores"}, ir.Float("softcap", 2), ir.Int("qk_matmul_output_mode", mode))
			flat := []string{}
			for _, name := range []string{"h", "keys", "values", "scores"} {
				flat = append(flat, g.Add("Flatten", []string{name}, ir.Int("axis", 0)))
			}
			g.AddNamed("all", "Concat", flat, []string{"y"}, ir.Int("axis", 1))
		}
		checkJacobian(t, k)
	}
}

func TestAttentionRefuses(t *testing.T) {
	for want, shape := range map[string][]ir.Dim{
		"q_num_heads and kv_num_heads are missing": ir.FixedDims(1, 2, 4),
		"the number of heads is not known":         {ir.Fixed(1), ir.Free("heads"), ir.Fixed(2), ir.Fixed(2)},
	} {
		m := ir.NewModel("test", 10, 23)
		g, err := ir.NewGraph(m)
		must(t, err)
		must(t, g.Input("x", ir.Float32, shape...))
		g.AddNamed("the_node", "Attention", []string{"x", "x", "x"}, []string{"y"})
		if _, err := Gradient(m, "y", []string{"x"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, wanted %q", err, want)
		}
	}
}
