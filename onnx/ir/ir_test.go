package ir

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/internal/testdata"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Models of other tools mean the same after loading and saving, and saving is then stable.
func TestRealModelsRoundTrip(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Dir(t), "onnx", "models", "*.onnx"))
	must(t, err)
	if len(files) == 0 {
		t.Skip("no models")
	}
	same := 0
	for _, path := range files {
		m, err := LoadFile(path)
		must(t, err)
		must(t, Check(m))
		data, err := Marshal(m)
		must(t, err)
		again, err := Load(data)
		must(t, err)
		if !proto.Equal(m, again) {
			t.Errorf("%s: the model changed", path)
		}
		twice, err := Marshal(again)
		must(t, err)
		if !bytes.Equal(data, twice) {
			t.Errorf("%s: the bytes change from one save to the next", path)
		}
		was, err := os.ReadFile(path)
		must(t, err)
		if bytes.Equal(was, data) {
			same++
		}
	}
	t.Logf("%d of %d models have the same bytes after loading and saving", same, len(files))
	if same == 0 {
		t.Error("no model keeps its bytes")
	}
}

// Fields of a later version of the format survive at every level.
func TestUnknownFieldsAreKept(t *testing.T) {
	extra := protowire.AppendString(protowire.AppendTag(nil, 4000, protowire.BytesType), "from the future")
	m := NewModel("g", 8, 17)
	g, err := NewGraph(m)
	must(t, err)
	g.AddNamed("n", "Relu", []string{"x"}, []string{"y"}, Int("k", 1))
	for _, part := range []proto.Message{m, m.Graph, m.Graph.Node[0], m.Graph.Node[0].Attribute[0]} {
		part.ProtoReflect().SetUnknown(extra)
	}
	data, err := Marshal(m)
	must(t, err)
	again, err := Load(data)
	must(t, err)
	if n := bytes.Count(data, []byte("from the future")); n != 4 || !proto.Equal(m, again) {
		t.Errorf("%d of 4 unknown fields are written", n)
	}
	data2, err := Marshal(again)
	must(t, err)
	if !bytes.Equal(data, data2) {
		t.Error("unknown fields are lost in the second save")
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, data := range map[string][]byte{
		"empty": nil, "text": []byte("not a model, really"), "cut off": {0x3a, 0x20, 0x0a}, "no graph": {0x08, 0x08},
	} {
		if _, err := Load(data); err == nil || !strings.Contains(err.Error(), "not an ONNX model") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "bad.onnx")
	must(t, os.WriteFile(path, []byte("bad"), 0o600))
	if _, err := LoadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v does not name the file", err)
	}
}

func TestTensors(t *testing.T) {
	ints, err := Int64s(Int64Tensor("a", 3, -1, math.MaxInt64))
	must(t, err)
	if len(ints) != 3 || ints[1] != -1 || ints[2] != math.MaxInt64 {
		t.Errorf("got %v", ints)
	}
	floats, err := Float32s(Float32Tensor("f", []int64{2, 1}, []float32{1.5, -2}))
	must(t, err)
	if len(floats) != 2 || floats[0] != 1.5 || floats[1] != -2 {
		t.Errorf("got %v", floats)
	}
	listed := &onnxpb.TensorProto{DataType: Int64, Dims: []int64{2}, Int64Data: []int64{4, 5}}
	if ints, err := Int64s(listed); err != nil || len(ints) != 2 || ints[1] != 5 {
		t.Errorf("got %v, %v", ints, err)
	}
	for name, bad := range map[string]*onnxpb.TensorProto{
		"wrong type": Float32Tensor("x", []int64{1}, []float32{1}),
		"too few":    {DataType: Int64, Dims: []int64{3}, Int64Data: []int64{1}},
		"negative":   {DataType: Int64, Dims: []int64{-1}},
		"huge":       {DataType: Int64, Dims: []int64{1 << 40, 1 << 40}},
		"odd bytes":  {DataType: Int64, Dims: []int64{1}, RawData: []byte{1, 2, 3}},
		"elsewhere":  {DataType: Int64, DataLocation: onnxpb.TensorProto_EXTERNAL},
	} {
		if _, err := Int64s(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Bit patterns of half-precision numbers, from IEEE 754 and from the definition of bfloat16 as the upper half of a float32.
func TestHalfPrecision(t *testing.T) {
	for _, c := range []struct {
		v           float64
		half, brain uint16
	}{
		{0, 0, 0}, {1, 0x3c00, 0x3f80}, {-2, 0xc000, 0xc000}, {0.5, 0x3800, 0x3f00}, {65504, 0x7bff, 0x4780}, {65520, 0x7c00, 0x4780},
		{0x1p-24, 1, 0x3380}, {0x1p-14, 0x0400, 0x3880}, {0.2, 0x3266, 0x3e4d}, {1 + 0x1p-11, 0x3c00, 0x3f80}, {1 + 3*0x1p-11, 0x3c02, 0x3f80},
		{math.Inf(-1), 0xfc00, 0xff80},
	} {
		for elem, want := range map[onnxpb.TensorProto_DataType]uint16{onnxpb.TensorProto_FLOAT16: c.half, onnxpb.TensorProto_BFLOAT16: c.brain} {
			x, err := ScalarTensor("", int32(elem), c.v)
			must(t, err)
			if got := binary.LittleEndian.Uint16(x.RawData); got != want {
				t.Errorf("%v as %v is %#x, want %#x", c.v, elem, got, want)
			}
		}
	}
	if _, err := ScalarTensor("", Int64, 1); err == nil {
		t.Error("an integer type is accepted")
	}
}

func TestTensorType(t *testing.T) {
	v := ValueInfo("x", Float32, Free("N"), Fixed(3), Dim{})
	elem, shape, ranked := TensorType(v)
	if elem != Float32 || !ranked || len(shape) != 3 || shape[0] != Free("N") || shape[1] != Fixed(3) || shape[2] != (Dim{}) {
		t.Errorf("got %v %v %v", elem, shape, ranked)
	}
	if !Free("N").Same(Free("N")) || Free("N").Same(Free("M")) || (Dim{}).Same(Dim{}) || !Fixed(2).Same(Fixed(2)) || Fixed(0).Same(Dim{}) {
		t.Error("Same")
	}
	if _, _, ranked := TensorType(&onnxpb.ValueInfoProto{}); ranked {
		t.Error("a value without a type has a rank")
	}
}
