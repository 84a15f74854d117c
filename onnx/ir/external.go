package ir

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// maxBytes is the most that an ONNX file can hold: protobuf counts bytes with 31 bits.
const maxBytes = 1<<31 - 1

// external reads tensors that are stored beside a model.
type external struct {
	folders []string // real paths; a tensor must lie in one of them
	dir     string   // what locations are relative to
	total   int64    // bytes that the model takes with what was read
	name    string   // the tensor at hand, for errors
}

// readExternal puts the values of all tensors that are stored in other files into the model, which was read from path.
func readExternal(m *onnxpb.ModelProto, path string) error {
	var stored []*onnxpb.TensorProto
	eachTensor(m, func(t *onnxpb.TensorProto) {
		if t.GetDataLocation() == onnxpb.TensorProto_EXTERNAL {
			stored = append(stored, t)
		}
	})
	if len(stored) == 0 {
		return nil
	}
	e := external{dir: filepath.Dir(path), total: int64(proto.Size(m))}
	// A model that is itself a link, as in download caches, may have its data beside the file that the link leads to.
	for _, at := range []func() (string, error){
		func() (string, error) { return filepath.EvalSymlinks(e.dir) },
		func() (string, error) { real, err := filepath.EvalSymlinks(path); return filepath.Dir(real), err },
	} {
		dir, err := at()
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err != nil {
			return err
		}
		e.folders = append(e.folders, dir)
	}
	for _, t := range stored {
		if err := e.read(t); err != nil {
			return fmt.Errorf("tensor %q: %w", t.GetName(), err)
		}
	}
	return nil
}

// place is where the values of a tensor are stored.
type place struct {
	location       string
	offset, length int64 // length is -1 where it is not stated
}

func placeOf(t *onnxpb.TensorProto) (place, error) {
	p := place{length: -1}
	for _, e := range t.GetExternalData() {
		var err error
		switch e.GetKey() {
		case "location":
			p.location = e.GetValue()
		case "offset":
			p.offset, err = strconv.ParseInt(e.GetValue(), 10, 64)
		case "length":
			p.length, err = strconv.ParseInt(e.GetValue(), 10, 64)
		default:
			continue
		}
		if err != nil || p.offset < 0 || p.length < -1 || p.length == -1 && e.GetKey() == "length" {
			return p, fmt.Errorf("external_data has %s %q, want a number of bytes", e.GetKey(), e.GetValue())
		}
	}
	if p.location == "" {
		return p, errors.New("it is stored in another file, but external_data names none (location)")
	}
	return p, nil
}

func (e *external) read(t *onnxpb.TensorProto) error {
	p, err := placeOf(t)
	if err != nil {
		return err
	}
	n, ok := Elements(t.GetDims())
	bits := elemBits(t.GetDataType())
	if bits == 0 {
		return fmt.Errorf("values of type %s cannot be read from another file", ElemName(t.GetDataType()))
	}
	if !ok {
		return fmt.Errorf("it has dimensions %v", t.GetDims())
	}
	want := (n*bits + 7) / 8
	if p.length >= 0 && p.length != want {
		return fmt.Errorf("external_data has length %d, but %v values of %s take %d bytes", p.length, t.GetDims(), ElemName(t.GetDataType()), want)
	}
	if e.total += want; e.total > maxBytes {
		return fmt.Errorf("with its external data the model takes more than %d bytes, which is what an ONNX model can hold in one piece", maxBytes)
	}
	raw, err := e.bytes(p, want)
	if err != nil {
		return err
	}
	t.RawData, t.DataLocation, t.ExternalData = raw, onnxpb.TensorProto_DEFAULT, nil
	return nil
}

// bytes reads a part of a file, after looking that the file is where a model may point to and is long enough.
func (e *external) bytes(p place, length int64) ([]byte, error) {
	if !filepath.IsLocal(filepath.FromSlash(p.location)) {
		return nil, fmt.Errorf("its data file %q is outside the model's folder, from where nothing is read: put the file beside the model", p.location)
	}
	path := filepath.Join(e.dir, filepath.FromSlash(p.location))
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("its data file %s is missing: put it beside the model", path)
	}
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, fmt.Errorf("its data file: %w", err)
	}
	if !e.inside(real) {
		return nil, fmt.Errorf("its data file %s is a link to %s outside the model's folder, from where nothing is read: put the file itself beside the model", path, real)
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, fmt.Errorf("its data file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("its data file %s is no regular file", path)
	}
	if p.offset > info.Size() || length > info.Size()-p.offset {
		return nil, fmt.Errorf("its data file %s has %d bytes, want %d bytes from byte %d on: the file is cut off or belongs to another model",
			path, info.Size(), length, p.offset)
	}
	f, err := os.Open(real)
	if err != nil {
		return nil, fmt.Errorf("its data file: %w", err)
	}
	defer f.Close()
	raw := make([]byte, length)
	if _, err := io.ReadFull(io.NewSectionReader(f, p.offset, length), raw); err != nil {
		return nil, fmt.Errorf("its data file %s: %w", path, err)
	}
	return raw, nil
}

func (e *external) inside(real string) bool {
	for _, dir := range e.folders {
		if rel, err := filepath.Rel(dir, real); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// eachTensor visits all constants of a model: initializers, dense and sparse, and attributes, in all graphs and functions.
func eachTensor(m *onnxpb.ModelProto, visit func(*onnxpb.TensorProto)) {
	graphTensors(m.GetGraph(), visit)
	for _, t := range m.GetTrainingInfo() {
		graphTensors(t.GetInitialization(), visit)
		graphTensors(t.GetAlgorithm(), visit)
	}
	for _, f := range m.GetFunctions() {
		attributeTensors(f.GetAttributeProto(), visit)
		for _, n := range f.GetNode() {
			attributeTensors(n.GetAttribute(), visit)
		}
	}
}

func graphTensors(pb *onnxpb.GraphProto, visit func(*onnxpb.TensorProto)) {
	for _, t := range pb.GetInitializer() {
		visit(t)
	}
	for _, t := range pb.GetSparseInitializer() {
		sparseTensors(t, visit)
	}
	for _, n := range pb.GetNode() {
		attributeTensors(n.GetAttribute(), visit)
	}
}

func attributeTensors(attrs []*onnxpb.AttributeProto, visit func(*onnxpb.TensorProto)) {
	for _, a := range attrs {
		if a.GetT() != nil {
			visit(a.GetT())
		}
		for _, t := range a.GetTensors() {
			visit(t)
		}
		sparseTensors(a.GetSparseTensor(), visit)
		for _, t := range a.GetSparseTensors() {
			sparseTensors(t, visit)
		}
		graphTensors(a.GetG(), visit)
		for _, g := range a.GetGraphs() {
			graphTensors(g, visit)
		}
	}
}

func sparseTensors(t *onnxpb.SparseTensorProto, visit func(*onnxpb.TensorProto)) {
	if t.GetValues() != nil {
		visit(t.GetValues())
	}
	if t.GetIndices() != nil {
		visit(t.GetIndices())
	}
}

// ExternalFiles lists the files beside the model in path that hold tensors of it, sorted, each once.
func ExternalFiles(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := Load(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	found := map[string]bool{}
	eachTensor(m, func(t *onnxpb.TensorProto) {
		if t.GetDataLocation() != onnxpb.TensorProto_EXTERNAL {
			return
		}
		if p, perr := placeOf(t); perr == nil && filepath.IsLocal(p.location) {
			found[filepath.Join(filepath.Dir(path), p.location)] = true
		}
	})
	return slices.Sorted(maps.Keys(found)), nil
}
