package convert

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/internal/testdata"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestRaiseRefuses(t *testing.T) {
	node := func(op string, inputs, outputs string, attrs ...*onnxpb.AttributeProto) func(m *onnxpb.ModelProto) {
		return func(m *onnxpb.ModelProto) {
			m.Graph.Node = []*onnxpb.NodeProto{{Name: "n", OpType: op, Input: strings.Split(inputs, " "), Output: strings.Split(outputs, " "), Attribute: attrs}}
		}
	}
	body := &onnxpb.AttributeProto{Name: "body", Type: onnxpb.AttributeProto_GRAPH, G: &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{{OpType: "Scan", Input: []string{"x"}, Output: []string{"s"}}}}}
	for _, c := range []struct {
		name     string
		from, to int64
		change   func(m *onnxpb.ModelProto)
		want     string
	}{
		{"too old", 6, 13, nil, "operator set 6, models can be raised from 7 on"},
		{"lower", 13, 12, nil, "cannot be lowered to 12"},
		{"not known", 13, Newest + 1, nil, "is not known"},
		{"no operator set", 0, 13, nil, "no version"},
		{"no graph", 7, 13, func(m *onnxpb.ModelProto) { m.Graph = nil }, "no graph"},
		{"training", 7, 13, func(m *onnxpb.ModelProto) { m.TrainingInfo = []*onnxpb.TrainingInfoProto{{}} }, "for training"},
		{"function", 7, 13, func(m *onnxpb.ModelProto) {
			m.Functions = []*onnxpb.FunctionProto{{Name: "F", Domain: "d", OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 7}}}}
		}, "inline the functions first"},
		{"no input", 7, 13, node("Softmax", "", "y"), `node "n" (Softmax): it has no input`},
		{"spatial", 7, 9, node("BatchNormalization", "x s b m v", "y", ir.Int("spatial", 0)), `node "n" (BatchNormalization): attribute spatial is 0`},
		{"statistics", 9, 14, node("BatchNormalization", "x s b m v", "y mean", ir.Int("spatial", 0)), "more outputs than one"},
		{"mask", 7, 10, func(m *onnxpb.ModelProto) {
			node("Dropout", "x", "y mask")(m)
			m.Graph.Output = append(m.Graph.Output, &onnxpb.ValueInfoProto{Name: "mask"})
		}, `node "n" (Dropout): its output "mask"`},
		{"scan", 8, 9, node("Scan", " x", "y"), "batches"},
		{"scan in a subgraph", 8, 9, node("Loop", "x", "y", body), "batches"},
		{"type of Clip", 7, 11, func(m *onnxpb.ModelProto) {
			node("Clip", "x", "y", ir.Float("min", 0))(m)
			m.Graph.Input[0].Type = nil
		}, "run ONNX shape inference"},
		{"type of Clip is an integer", 7, 11, func(m *onnxpb.ModelProto) {
			node("Clip", "x", "y", ir.Float("min", 0))(m)
			m.Graph.Input[0].Type.GetTensorType().ElemType = ir.Int64
		}, "not a floating-point type"},
		{"slice", 7, 10, node("Slice", "x", "y", ir.Ints("starts", 1, 2), ir.Ints("ends", 1)), "differ in length"},
		{"TopK without k", 7, 10, node("TopK", "x", "y"), "attribute k is missing"},
		{"Slice without ends", 7, 10, node("Slice", "x", "y", ir.Ints("starts", 1)), "attribute ends is missing"},
		{"Pad without pads", 7, 11, node("Pad", "x", "y"), "attribute pads is missing"},
		{"Upsample without scales", 7, 10, node("Upsample", "x", "y"), "attribute scales is missing"},
		{"Unsqueeze without axes", 7, 13, node("Unsqueeze", "x", "y"), "attribute axes is missing"},
		{"softmax axis", 7, 13, node("Softmax", "x", "y", ir.Int("axis", 4)), "axis 4 of an input with 2 dimensions"},
		{"resize", 11, 13, node("Resize", "x r s", "y", ir.String("coordinate_transformation_mode", "tf_half_pixel_for_nn")), "tf_half_pixel_for_nn"},
		{"groups", 18, 21, node("GroupNormalization", "x s b", "y"), "num_groups is 0"},
		{"groups that do not divide", 18, 21, node("GroupNormalization", "x s b", "y", ir.Int("num_groups", 2)), "3 channels in 2 groups"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := ir.NewModel("g", 8, c.from)
			m.Graph.Input = []*onnxpb.ValueInfoProto{ir.ValueInfo("x", ir.Float32, ir.Fixed(2), ir.Fixed(3))}
			m.Graph.Output = []*onnxpb.ValueInfoProto{ir.ValueInfo("y", ir.Float32)}
			if c.change != nil {
				c.change(m)
			}
			was := proto.Clone(m)
			if err := Raise(m, c.to); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if !proto.Equal(was, m) {
				t.Error("the model changed")
			}
		})
	}
}

// Constants that subgraphs need, names that are taken, legacy attributes, other domains.
func TestRaiseReachesSubgraphs(t *testing.T) {
	m := ir.NewModel("g", 6, 11)
	m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: "com.example", Version: 1})
	g, err := ir.NewGraph(m)
	must(t, err)
	must(t, g.Input("x", ir.Float32, ir.Fixed(1), ir.Fixed(3)))
	must(t, g.Input("c", ir.Bool))
	branch := func(name string) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH, G: &onnxpb.GraphProto{Name: name,
			Node:   []*onnxpb.NodeProto{{Name: "s", OpType: "Squeeze", Input: []string{"x"}, Output: []string{name + "_r"}, Attribute: []*onnxpb.AttributeProto{ir.Ints("axes", 0)}}},
			Output: []*onnxpb.ValueInfoProto{{Name: name + "_r"}}}}
	}
	g.AddNamed("s/axes", "If", []string{"c"}, []string{"y"}, branch("then_branch"), branch("else_branch"))
	g.AddNamed("r", "Relu", []string{"y"}, []string{"z"}, ir.Ints("consumed_inputs", 0), ir.Int("is_test", 1))
	other := g.AddNamed("o", "Squeeze", []string{"y"}, []string{"o"}, ir.Ints("axes", 0), ir.Int("is_test", 1))
	other.Domain = "com.example"
	g.Output("z", ir.Float32)
	must(t, Raise(m, 13))
	must(t, ir.Check(m))
	if len(m.Graph.Initializer) != 1 || m.Graph.Initializer[0].Name != "s/axes_1" {
		t.Errorf("constants %v", m.Graph.Initializer)
	}
	for _, sub := range ir.Subgraphs(m.Graph.Node[0]) {
		if n := sub.Node[0]; !slices.Equal(n.Input, []string{"x", "s/axes_1"}) || len(n.Attribute) != 0 {
			t.Errorf("got %v", n)
		}
	}
	if len(m.Graph.Node[1].Attribute) != 0 || len(m.Graph.Node[2].Attribute) != 2 || len(m.Graph.Node[2].Input) != 1 {
		t.Error("legacy attributes stay, or another domain changed")
	}
	if m.OpsetImport[0].Version != 13 || m.OpsetImport[1].Version != 1 || m.IrVersion != 7 {
		t.Errorf("versions %v, format %d", m.OpsetImport, m.IrVersion)
	}
}

func TestFormatVersion(t *testing.T) {
	for _, c := range []struct{ was, to, want, inputs int64 }{
		{3, 8, 3, 2}, {3, 9, 4, 1}, {4, 9, 4, 2}, {3, 21, 10, 1}, {8, 13, 8, 2}, {5, 17, 8, 2}, {3, 7, 3, 2}, {6, Newest, 13, 2},
	} {
		m := ir.NewModel("g", c.was, 7)
		m.Graph.Input = []*onnxpb.ValueInfoProto{ir.ValueInfo("x", ir.Float32), ir.ValueInfo("w", ir.Float32)}
		m.Graph.Initializer = []*onnxpb.TensorProto{ir.Float32Tensor("w", nil, []float32{1})}
		must(t, Raise(m, c.to))
		if m.IrVersion != c.want || len(m.Graph.Input) != int(c.inputs) || ir.Opset(m) != c.to {
			t.Errorf("format %d to operator set %d: format %d and %d inputs", c.was, c.to, m.IrVersion, len(m.Graph.Input))
		}
	}
}

// Models of other tools give the same outputs in every operator set.
func TestRealModelsRaised(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Dir(t), "onnx", "models", "*.onnx"))
	must(t, err)
	raised := 0
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			m, err := ir.LoadFile(path)
			must(t, err)
			if ir.Opset(m) < Oldest || strings.Contains(path, "unsupported") {
				t.Skipf("operator set %d", ir.Opset(m))
			}
			want, err := run(t, m, nil)
			must(t, err)
			for _, to := range []int64{13, 17, 21, Newest} {
				if to < ir.Opset(m) {
					continue
				}
				must(t, Raise(m, to))
				must(t, ir.Check(m))
				got, err := run(t, m, nil)
				must(t, err)
				if err := compare(got, want, 1e-6); err != nil {
					t.Errorf("operator set %d: %v", to, err)
				}
				raised++
			}
		})
	}
	if raised == 0 {
		t.Error("no model was raised")
	}
}
