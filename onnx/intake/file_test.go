package intake

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/internal/testdata"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Files that cannot be taken in: the error names the file and says what to do.
func TestRefusedFiles(t *testing.T) {
	models := func(t *testing.T, name string) string { return filepath.Join(testdata.Dir(t), "onnx/models", name) }
	built := func(change func(m *onnxpb.ModelProto)) func(t *testing.T) string {
		return func(t *testing.T) string {
			b := newNet(t, 17)
			b.mlp(b.input("values", ir.Float32, 0, 4), 4, 3)
			b.output("z", 0, 3)
			change(b.m)
			return write(t, b.m)
		}
	}
	for _, c := range []struct {
		name string
		path func(t *testing.T) string
		want []string
	}{
		{"an old operator set", func(t *testing.T) string { return models(t, "jets-mlp-batchnorm-opset6.onnx") },
			[]string{"operator set 6", "ONNX Runtime takes 7 and later", "export it anew"}},
		{"operators that exist nowhere", func(t *testing.T) string { return models(t, "unsupported-quant-bnn.onnx") },
			[]string{"onnx.brevitas.BipolarQuant", "ONNX Runtime has no operators of domain onnx.brevitas", "standard operators only"}},
		{"no file", func(t *testing.T) string { return filepath.Join(t.TempDir(), "none.onnx") }, []string{"none.onnx", "no such file"}},
		{"a text", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "theirs.onnx")
			must(t, os.WriteFile(path, []byte("version https://git-lfs.github.com/spec/v1\n"), 0o644))
			return path
		}, []string{"theirs.onnx", "not an ONNX model"}},
		{"a custom operator", built(func(m *onnxpb.ModelProto) { m.Graph.Node[1].Domain = "theirs" }),
			[]string{`node "first" (theirs.Add)`, "no operators of domain theirs"}},
		{"a custom operator in a branch", built(func(m *onnxpb.ModelProto) {
			m.Graph.Node = append(m.Graph.Node, &onnxpb.NodeProto{OpType: "If", Name: "choice", Input: []string{"z"}, Output: []string{"y"}, Attribute: []*onnxpb.AttributeProto{
				{Name: "then_branch", G: &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{{OpType: "Own", Name: "inner", Domain: "theirs"}}}}}})
		}), []string{`node "inner" (theirs.Own)`}},
		{"an operator that is none", built(func(m *onnxpb.ModelProto) { m.Graph.Node[1].OpType = "Addd" }), []string{"theirs.onnx", "Addd"}},
		{"a copy of nothing", built(func(m *onnxpb.ModelProto) {
			last := m.Graph.Node[len(m.Graph.Node)-1]
			last.OpType, last.Input = "Identity", nil
		}), []string{"theirs.onnx", "ONNX Runtime cannot load it"}},
		{"a value from nowhere", built(func(m *onnxpb.ModelProto) { m.Graph.Node[1].Input[0] = "nothing" }),
			[]string{`node "first" (Add): its input "nothing" is defined nowhere`}},
		{"a function that calls itself", built(func(m *onnxpb.ModelProto) {
			m.Graph.Node[1].Domain, m.Graph.Node[1].OpType = "theirs", "Again"
			m.Functions = []*onnxpb.FunctionProto{{Domain: "theirs", Name: "Again", Input: []string{"a", "b"}, Output: []string{"c"}, Node: []*onnxpb.NodeProto{
				{OpType: "Again", Domain: "theirs", Input: []string{"a", "b"}, Output: []string{"c"}}}}}
		}), []string{"theirs.Again calls itself"}},
		{"an operator set of the future", built(func(m *onnxpb.ModelProto) { m.OpsetImport[0].Version = 99 }), []string{"theirs.onnx", "99"}},
		{"no operator set", built(func(m *onnxpb.ModelProto) { m.OpsetImport = nil }), []string{"opset_import is empty"}},
		{"weights of another shape", built(func(m *onnxpb.ModelProto) { m.Graph.Initializer[0].Dims = []int64{3, 6} }), []string{"theirs.onnx", "Node (first_product) Op (MatMul)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := runtimetest.Open(t)
			cfg := Config{}
			cfg.Preprocess.SampleShape = []int{4}
			_, err := Open(context.Background(), rt, c.path(t), cfg, rows(4, 4))
			if err == nil || fault.KindOf(err) != fault.Data {
				t.Fatalf("error %v of kind %v", err, fault.KindOf(err))
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %v, want %q in it", err, w)
				}
			}
		})
	}
}

// Who stops the work gets an error that says so, and no blame on the file.
func TestStopped(t *testing.T) {
	rt := runtimetest.Open(t)
	b := newNet(t, 17)
	b.mlp(b.input("values", ir.Float32, 3, 4), 4, 3)
	b.output("z", 3, 3)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	cfg := Config{}
	cfg.Preprocess.SampleShape = []int{4}
	if _, err := Open(ctx, rt, write(t, b.m), cfg, rows(4, 4)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	for _, shape := range [][]int{nil, {0}, {4, -1}, {3}} {
		cfg.Preprocess.SampleShape = shape
		if _, err := Open(context.Background(), rt, write(t, b.m), cfg, rows(4, 4)); err == nil {
			t.Errorf("samples of shape %v are taken", shape)
		}
	}
}

// A model whose weights lie in another file gives what it gives in one.
func TestExternalData(t *testing.T) {
	rt := runtimetest.Open(t)
	b := newNet(t, 17)
	b.mlp(b.input("values", ir.Float32, 0, 4), 4, 3)
	b.output("z", 0, 3)
	whole := ir.Clone(b.m)
	dir := t.TempDir()
	var data []byte
	for _, w := range b.m.Graph.Initializer {
		w.ExternalData = []*onnxpb.StringStringEntryProto{{Key: "location", Value: "weights.bin"}, {Key: "offset", Value: strconv.Itoa(len(data))}, {Key: "length", Value: strconv.Itoa(len(w.RawData))}}
		data, w.RawData, w.DataLocation = append(data, w.RawData...), nil, onnxpb.TensorProto_EXTERNAL
	}
	must(t, os.WriteFile(filepath.Join(dir, "weights.bin"), data, 0o644))
	file, err := ir.Marshal(b.m)
	must(t, err)
	path := filepath.Join(dir, "theirs.onnx")
	must(t, os.WriteFile(path, file, 0o644))
	cfg := Config{}
	cfg.Preprocess.SampleShape = []int{4}
	x := rows(probeRows, 4)
	c, err := Open(context.Background(), rt, path, cfg, x)
	must(t, err)
	base := theirs{classes: 3, features: 6, hidden: "hidden", head: true, shape: []int{4}}
	base.found(t, c)
	base.same(t, whole, c, x)
	base.gradient(t, c, x)
	must(t, os.Remove(filepath.Join(dir, "weights.bin")))
	if _, err := Open(context.Background(), rt, path, cfg, x); err == nil || !strings.Contains(err.Error(), "weights.bin is missing: put it beside the model") {
		t.Errorf("error %v", err)
	}
}

// A model of machine-learning operators need not import ONNX's own.
func TestNoStandardOperators(t *testing.T) {
	c := theirs{classes: 3, shape: []int{4}, value: "p", names: []string{"a", "b", "c"}, energy: "", noGradient: ""}
	c.build = func(b *net) {
		b.m.OpsetImport = []*onnxpb.OperatorSetIdProto{{Domain: "ai.onnx.ml", Version: 1}}
		coefficients := make([]float32, 12)
		for i := range coefficients {
			coefficients[i] = float32(math.Sin(float64(3 * i)))
		}
		b.g.AddNamed("classifier", "LinearClassifier", []string{b.input("values", ir.Float32, 0, 4)}, []string{"label", "p"},
			floats("coefficients", coefficients...), floats("intercepts", 0.1, -0.2, 0.3), strs("classlabels_strings", "a", "b", "c"), ir.String("post_transform", "NONE"))
		ml(b.lastNode())
		b.m.Graph.Output = append(b.m.Graph.Output, ir.ValueInfo("label", int32(onnxpb.TensorProto_STRING), ir.Free("N")))
		b.output("p", 0, 3)
	}
	c.run(t)
}

func floats(name string, v ...float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOATS, Floats: v}
}

// Values in a branch of the graph may have the names that a finished model gives to its own.
func TestReservedNamesInABranch(t *testing.T) {
	c := theirs{classes: 3, features: 6, hidden: "hidden", shape: []int{8}, head: true}
	c.build = func(b *net) {
		b.mlp(b.input("values", ir.Float32, 0, 8), 8, 3)
		branch := func(op string) *onnxpb.GraphProto {
			return &onnxpb.GraphProto{Name: op, Output: []*onnxpb.ValueInfoProto{ir.ValueInfo("energy", ir.Float32)}, Node: []*onnxpb.NodeProto{
				{Name: "x", OpType: op, Input: []string{"z"}, Output: []string{"x"}}, {Name: "logits", OpType: "Identity", Input: []string{"x"}, Output: []string{"energy"}}}}
		}
		yes := b.op("yes", "Constant", nil, ir.TensorAttr("value", &onnxpb.TensorProto{DataType: ir.Bool, RawData: []byte{1}}))
		b.op("chosen", "If", []string{yes}, &onnxpb.AttributeProto{Name: "then_branch", Type: onnxpb.AttributeProto_GRAPH, G: branch("Identity")},
			&onnxpb.AttributeProto{Name: "else_branch", Type: onnxpb.AttributeProto_GRAPH, G: branch("Neg")})
		b.output("chosen", 0, 3)
	}
	c.features, c.head = 0, false
	c.noGradient = "If"
	c.run(t)
}
