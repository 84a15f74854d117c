package ir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/internal/testdata"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// exercise does to bytes what is done to model files. Whatever they hold, each step gives an error or a model that is
// as sound as it was.
func exercise(t *testing.T, data []byte) {
	m, err := Load(data)
	if err != nil {
		return
	}
	sound := Check(m) == nil
	stays := func(step string, m *onnxpb.ModelProto) {
		t.Helper()
		if !sound {
			return
		}
		if err := Check(m); err != nil {
			t.Fatalf("%s breaks the model: %v", step, err)
		}
		out, err := Marshal(m)
		must(t, err)
		if _, err := Load(out); err != nil {
			t.Fatalf("%s: what was written cannot be read: %v", step, err)
		}
	}
	stays("Load", m)
	eachTensor(m, func(c *onnxpb.TensorProto) {
		_, _ = Int64s(c)
		_, _ = Float32s(c)
		_, _ = Floats(c)
		_, _ = Integers(c)
	})
	for _, v := range m.Graph.Input {
		TensorType(v)
	}
	was := Clone(m)
	inlined := Clone(m)
	if err := Inline(inlined); err == nil {
		stays("Inline", inlined)
	} else if !proto.Equal(inlined, was) {
		t.Fatalf("Inline fails and changes the model: %v", err)
	}
	extractParts(t, m, stays)
	if !proto.Equal(m, was) {
		t.Fatal("Extract changes the model")
	}
	Prune(m)
	stays("Prune", m)
	FreeInitializers(m)
	stays("FreeInitializers", m)
	g, err := NewGraph(m)
	must(t, err)
	g.Add("Relu", []string{"x"})
	_ = g.Rename("Relu", "y")
}

// extractParts takes some values of a model, from its inputs and from other values.
func extractParts(t *testing.T, m *onnxpb.ModelProto, stays func(string, *onnxpb.ModelProto)) {
	t.Helper()
	var inputs, values []string
	for _, v := range m.Graph.Input {
		inputs = append(inputs, v.GetName())
	}
	for _, n := range m.Graph.Node {
		values = append(values, n.Output...)
	}
	for i := range min(len(values), 4) {
		part, err := Extract(m, inputs, values[len(values)-1-i:len(values)-i])
		if err == nil {
			stays("Extract", part)
		}
		from := append(slices.Clone(inputs), values[i])
		if part, err = Extract(m, from, values[len(values)-1:]); err == nil {
			stays("Extract from within", part)
		}
	}
}

// nested is a graph in a graph in a graph, as deep as asked, in bytes.
func nested(depth int) []byte {
	var graph []byte
	for range depth {
		attr := protowire.AppendBytes(protowire.AppendTag(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "body"), 6, protowire.BytesType), graph)
		node := protowire.AppendBytes(protowire.AppendTag(protowire.AppendString(protowire.AppendTag(nil, 4, protowire.BytesType), "If"), 5, protowire.BytesType), attr)
		graph = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), node)
	}
	m, _ := proto.Marshal(&onnxpb.ModelProto{OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}})
	return protowire.AppendBytes(protowire.AppendTag(m, 7, protowire.BytesType), graph)
}

// seeds are models that are fine and models that are not, each in its own way.
func seeds(t testing.TB) [][]byte {
	t.Helper()
	f := func(nodes ...*onnxpb.NodeProto) *onnxpb.FunctionProto { return function("F", "a", "b", nodes...) }
	call := in("d", node("c", "F", "x", "y"))
	huge := caller([]*onnxpb.NodeProto{call}, f(node("", "Exp", "a", "b")))
	huge.Graph.Initializer = []*onnxpb.TensorProto{
		{Name: "w", DataType: Float32, Dims: []int64{1 << 62, 1 << 62}}, {Name: "v", DataType: Int64, Dims: []int64{1 << 31}, RawData: []byte{1}},
		{Name: "u", DataType: 99, Dims: []int64{-1}}, {Name: "t", DataType: int32(onnxpb.TensorProto_FLOAT16), Dims: []int64{3}, Int32Data: []int32{1}}, stored("s", "../x"),
	}
	twice := tangle()
	twice.Graph.Node = append(twice.Graph.Node, twice.Graph.Node...)
	var out [][]byte
	for _, m := range []*onnxpb.ModelProto{
		tangle(), everywhere(stored("w", "data")), huge, twice,
		caller([]*onnxpb.NodeProto{node("a", "Add", "x b", "y"), node("b", "Exp", "y", "b")}),
		caller([]*onnxpb.NodeProto{node("a", "Add", "gone", "y")}),
		caller([]*onnxpb.NodeProto{call}, f(in("d", node("", "F", "a", "b")))),
		caller([]*onnxpb.NodeProto{with(call, Int("k", 1))}, f(in("d", node("g", "G", "a", "b"))), function("G", "a q", "b", with(node("", "Op", "a q", "b"), ref("k", "k", 0)))),
		caller([]*onnxpb.NodeProto{with(node("i", "If", "x", "y"), inner("u", in("d", node("q", "F", "x", "u"))))}, f(with(node("l", "Loop", "a", "b"), inner("t", node("", "Exp", "a", "t"))))),
		caller([]*onnxpb.NodeProto{with(in("d", node("c", "F", "x", "y")), inner("u", in("d", node("q", "H", "x", "u"))))},
			f(with(node("", "If", "a", "b"), ref("then", "body", onnxpb.AttributeProto_GRAPH))), function("H", "a", "a")),
	} {
		data, err := Marshal(m)
		must(t, err)
		out = append(out, data)
	}
	return append(out, nil, []byte{0x3a, 0}, nested(3), nested(32), nested(40), nested(4000))
}

func FuzzLoad(f *testing.F) {
	for _, data := range seeds(f) {
		f.Add(data)
	}
	f.Fuzz(exercise)
}

// Every seed cut off at every place and with every bit turned in turn, as far as time allows.
func TestBrokenSeeds(t *testing.T) {
	for _, data := range seeds(t) {
		if len(data) > 4000 {
			data = data[:4000]
		}
		for i := range data {
			exercise(t, data[:i])
			broken := slices.Clone(data)
			broken[i] ^= 1 << (i % 8)
			exercise(t, broken)
		}
	}
}

// Real models, cut off and with bits turned, mostly where the graph is and not the weights.
func TestBrokenModels(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Dir(t), "onnx", "models", "*.onnx"))
	must(t, err)
	for _, path := range files {
		data, err := os.ReadFile(path)
		must(t, err)
		steps := 2 + min(30, 1<<20/len(data))
		at := []int{}
		for i := range steps {
			at = append(at, i*7%len(data), i*len(data)/steps, len(data)-1-i*13%len(data))
		}
		for i, p := range at {
			exercise(t, data[:p])
			broken := slices.Clone(data)
			broken[p] ^= 1 << (i % 8)
			exercise(t, broken)
		}
	}
}
