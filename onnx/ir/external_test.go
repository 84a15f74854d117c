package ir

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// stored is a float tensor of two values in another file; more holds keys and values after the location.
func stored(name, location string, more ...string) *onnxpb.TensorProto {
	t := &onnxpb.TensorProto{Name: name, DataType: Float32, Dims: []int64{2}, DataLocation: onnxpb.TensorProto_EXTERNAL}
	if location != "" {
		more = append([]string{"location", location}, more...)
	}
	for i := 0; i < len(more); i += 2 {
		t.ExternalData = append(t.ExternalData, &onnxpb.StringStringEntryProto{Key: more[i], Value: more[i+1]})
	}
	return t
}

// everywhere puts a copy of a tensor into every place of a model that holds tensors.
func everywhere(c *onnxpb.TensorProto) *onnxpb.ModelProto {
	fresh := func() *onnxpb.TensorProto { return proto.Clone(c).(*onnxpb.TensorProto) }
	sparse := func() *onnxpb.SparseTensorProto { return &onnxpb.SparseTensorProto{Values: fresh(), Indices: fresh()} }
	constant := func() *onnxpb.NodeProto {
		return &onnxpb.NodeProto{OpType: "Constant", Output: []string{"k"}, Attribute: []*onnxpb.AttributeProto{TensorAttr("value", fresh())}}
	}
	holder := &onnxpb.NodeProto{OpType: "Holder", Attribute: []*onnxpb.AttributeProto{
		{Name: "a", Tensors: []*onnxpb.TensorProto{fresh(), fresh()}}, {Name: "b", SparseTensor: sparse()},
		{Name: "c", SparseTensors: []*onnxpb.SparseTensorProto{sparse()}},
		branch(&onnxpb.GraphProto{Initializer: []*onnxpb.TensorProto{fresh()}, Node: []*onnxpb.NodeProto{constant()}}),
		{Name: "d", Graphs: []*onnxpb.GraphProto{{Node: []*onnxpb.NodeProto{constant()}}}},
	}}
	m := NewModel("g", 8, 17)
	m.Graph = graph(constant(), holder)
	m.Graph.Initializer, m.Graph.SparseInitializer = []*onnxpb.TensorProto{fresh()}, []*onnxpb.SparseTensorProto{sparse()}
	m.Functions = []*onnxpb.FunctionProto{{Node: []*onnxpb.NodeProto{constant()}, AttributeProto: []*onnxpb.AttributeProto{TensorAttr("t", fresh())}}}
	m.TrainingInfo = []*onnxpb.TrainingInfoProto{{Initialization: &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{constant()}}, Algorithm: &onnxpb.GraphProto{Initializer: []*onnxpb.TensorProto{fresh()}}}}
	return m
}

func write(t *testing.T, path string, m *onnxpb.ModelProto) {
	t.Helper()
	data, err := Marshal(m)
	must(t, err)
	must(t, os.WriteFile(path, data, 0o600))
}

func TestExternalDataIsReadEverywhere(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	want := Float32Tensor("w", []int64{2}, []float32{1.5, -2})
	must(t, os.WriteFile(filepath.Join(dir, "sub", "data"), append([]byte("before"), append(want.RawData, "after"...)...), 0o600))
	path := filepath.Join(dir, "model.onnx")
	write(t, path, everywhere(stored("w", "sub/data", "offset", "6", "length", "8", "checksum", "unused")))
	m, err := LoadFile(path)
	must(t, err)
	n := 0
	eachTensor(m, func(c *onnxpb.TensorProto) {
		if n++; !proto.Equal(c, want) {
			t.Errorf("got %v", c)
		}
	})
	if n != 17 || !proto.Equal(m, everywhere(want)) {
		t.Errorf("%d tensors", n)
	}
	data, err := os.ReadFile(path)
	must(t, err)
	m, err = Load(data)
	must(t, err)
	if _, err := Float32s(m.Graph.Initializer[0]); err == nil || !strings.Contains(err.Error(), "stored in another file") {
		t.Errorf("Load alone: error %v", err)
	}
}

func TestExternalDataForms(t *testing.T) {
	dir := t.TempDir()
	raw := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	must(t, os.WriteFile(filepath.Join(dir, "data"), raw, 0o600))
	for _, c := range []struct {
		elem onnxpb.TensorProto_DataType
		dims []int64
		want []byte
	}{
		{onnxpb.TensorProto_DOUBLE, nil, raw}, {onnxpb.TensorProto_INT4, []int64{3}, raw[:2]}, {onnxpb.TensorProto_UINT2, []int64{5}, raw[:2]},
		{onnxpb.TensorProto_FLOAT16, []int64{2, 1}, raw[:4]}, {onnxpb.TensorProto_BOOL, []int64{0, 7}, nil}, {onnxpb.TensorProto_INT8, []int64{8}, raw},
	} {
		s := stored("w", "data")
		s.DataType, s.Dims = int32(c.elem), c.dims
		path := filepath.Join(dir, "model.onnx")
		write(t, path, everywhere(s))
		m, err := LoadFile(path)
		must(t, err)
		if got := m.Graph.Initializer[0].RawData; !bytes.Equal(got, c.want) {
			t.Errorf("%v %v: got %v, want %v", c.elem, c.dims, got, c.want)
		}
	}
}

func TestExternalDataRefuses(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "model")
	must(t, os.MkdirAll(filepath.Join(dir, "folder"), 0o700))
	for _, name := range []string{filepath.Join(top, "secret"), filepath.Join(dir, "data")} {
		must(t, os.WriteFile(name, make([]byte, 12), 0o600))
	}
	must(t, os.Symlink(filepath.Join(top, "secret"), filepath.Join(dir, "link")))
	typed := func(elem onnxpb.TensorProto_DataType, dims ...int64) *onnxpb.TensorProto {
		s := stored("w", "data")
		s.DataType, s.Dims = int32(elem), dims
		return s
	}
	for name, c := range map[string]struct {
		tensor *onnxpb.TensorProto
		want   string
	}{
		"missing":         {stored("w", "gone"), "is missing"},
		"no location":     {stored("w", ""), "names none"},
		"parent":          {stored("w", "../secret"), "outside the model's folder"},
		"hidden parent":   {stored("w", "folder/../../secret"), "outside the model's folder"},
		"absolute":        {stored("w", filepath.Join(dir, "data")), "outside the model's folder"},
		"link":            {stored("w", "link"), "outside the model's folder"},
		"folder":          {stored("w", "folder"), "no regular file"},
		"offset beyond":   {stored("w", "data", "offset", "13"), "has 12 bytes, want 8 bytes from byte 13"},
		"cut off":         {stored("w", "data", "offset", "5", "length", "8"), "has 12 bytes, want 8 bytes from byte 5"},
		"length differs":  {stored("w", "data", "length", "12"), "has length 12, but [2] values of FLOAT take 8 bytes"},
		"no number":       {stored("w", "data", "offset", "0x8"), `offset "0x8"`},
		"negative offset": {stored("w", "data", "offset", "-4"), `offset "-4"`},
		"negative length": {stored("w", "data", "length", "-1"), `length "-1"`},
		"strings":         {typed(onnxpb.TensorProto_STRING, 1), "values of type STRING"},
		"negative dim":    {typed(onnxpb.TensorProto_FLOAT, -1), "dimensions [-1]"},
		"overflow":        {typed(onnxpb.TensorProto_FLOAT, 1<<40, 1<<40), "dimensions"},
		"over 2 GiB":      {typed(onnxpb.TensorProto_FLOAT, 1<<29), "more than 2147483647 bytes"},
		"huge":            {typed(onnxpb.TensorProto_FLOAT, 1<<28), "want 1073741824 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "model.onnx")
			write(t, path, everywhere(c.tensor))
			_, err := LoadFile(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), fmt.Sprintf("%s: tensor %q: ", path, "w")) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// Download caches hold links to files that lie together elsewhere.
func TestExternalDataBesideTheLinkedModel(t *testing.T) {
	top := t.TempDir()
	blobs, links := filepath.Join(top, "blobs"), filepath.Join(top, "links")
	must(t, os.Mkdir(blobs, 0o700))
	must(t, os.Mkdir(links, 0o700))
	must(t, os.WriteFile(filepath.Join(blobs, "b"), make([]byte, 8), 0o600))
	write(t, filepath.Join(blobs, "a"), everywhere(stored("w", "data")))
	must(t, os.Symlink("../blobs/a", filepath.Join(links, "model.onnx")))
	must(t, os.Symlink("../blobs/b", filepath.Join(links, "data")))
	m, err := LoadFile(filepath.Join(links, "model.onnx"))
	must(t, err)
	if len(m.Graph.Initializer[0].RawData) != 8 {
		t.Error("the values are missing")
	}
}
