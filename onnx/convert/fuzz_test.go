package convert

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// seeds has a model for every operator that is adapted, in the version before: with what it needs, and bare.
func seeds(t testing.TB) [][]byte {
	var out [][]byte
	for version, table := range adapters {
		for op := range table {
			for inputs := range 4 {
				m := ir.NewModel("g", 8, version-1)
				g, err := ir.NewGraph(m)
				must(t, err)
				must(t, g.Input("x", ir.Float32, ir.Fixed(1), ir.Free("N"), ir.Dim{}))
				n := g.AddNamed("n", op, []string{"x", "x", "", "x"}[:inputs], []string{"y", "z"}, ir.Ints("axes", 0), ir.Int("axis", 1), ir.Int("num_groups", 1), ir.Float("min", 0),
					ir.Ints("pads", 0, 1), ir.Ints("starts", 1), ir.Ints("ends", 1), ir.Int("k", 1), floatList("scales", 2), ir.Ints("split", 1))
				g.AddNamed("s", "If", []string{"x"}, []string{"r"}, &onnxpb.AttributeProto{Name: "body", Type: onnxpb.AttributeProto_GRAPH,
					G: &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{proto.Clone(n).(*onnxpb.NodeProto)}, Output: []*onnxpb.ValueInfoProto{{Name: "y"}}}})
				g.Output("y", ir.Float32)
				data, err := ir.Marshal(m)
				must(t, err)
				out = append(out, data)
			}
		}
	}
	return out
}

// exercise raises what may be a model: that fails and changes nothing, or gives a model that is as sound as it was.
func exercise(t *testing.T, data []byte, to int64) {
	m, err := ir.Load(data)
	if err != nil {
		return
	}
	sound := ir.Check(m) == nil
	was := ir.Clone(m)
	if err := Raise(m, to); err != nil {
		if !proto.Equal(was, m) {
			t.Fatalf("Raise fails and changes the model: %v", err)
		}
		return
	}
	if sound {
		must(t, ir.Check(m))
		data, err := ir.Marshal(m)
		must(t, err)
		_, err = ir.Load(data)
		must(t, err)
	}
	if ir.Opset(m) != to {
		t.Fatalf("operator set %d, want %d", ir.Opset(m), to)
	}
}

func FuzzRaise(f *testing.F) {
	for i, data := range seeds(f) {
		f.Add(data, int64(Oldest+i%(Newest-Oldest+1)))
		f.Add(data, int64(Newest))
	}
	f.Fuzz(exercise)
}

// Every adapter takes nodes with any number of inputs, and without attributes.
func TestBareNodes(t *testing.T) {
	for version, table := range adapters {
		for op := range table {
			for inputs := range 5 {
				for outputs := range 3 {
					t.Run(fmt.Sprint(op, version, inputs, outputs), func(t *testing.T) {
						m := ir.NewModel("g", 8, version-1)
						m.Graph.Node = []*onnxpb.NodeProto{{OpType: op, Input: []string{"", "a", "b", "c"}[:min(inputs, 4)], Output: []string{"", "y"}[:outputs]}}
						if inputs > 0 {
							m.Graph.Node[0].Input[0] = []string{"", "a"}[inputs/4]
						}
						data, err := ir.Marshal(m)
						must(t, err)
						exercise(t, data, Newest)
					})
				}
			}
		}
	}
}
