package gradient

import (
	"archive/tar"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/internal/testdata"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// backendTest is one of ONNX's own node tests: a model, the tensors to give it and those to expect of it. Where a
// value is a sequence or an optional, its tensor is nil.
type backendTest struct {
	name            string
	model           *onnxpb.ModelProto
	inputs, outputs []*onnxpb.TensorProto
}

var loadBackend = sync.OnceValues(func() ([]*backendTest, error) { return readBackend(backendFile) })

// backendFile is set by the first test that needs the archive.
var backendFile string

// backendTests are the node tests of the ONNX project, sorted by name. The test is skipped where they are not there.
func backendTests(t *testing.T) []*backendTest {
	t.Helper()
	backendFile = filepath.Join(testdata.Dir(t), "onnx", "backend-node-tests.tar.gz")
	tests, err := loadBackend()
	if errors.Is(err, os.ErrNotExist) {
		t.Skip(err)
	}
	must(t, err)
	return tests
}

func readBackend(file string) ([]*backendTest, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	files := map[string]map[string][]byte{} // by test, then by path in it
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		parts := strings.SplitN(path.Clean(h.Name), "/", 3) // node/TEST/FILE
		if h.Typeflag != tar.TypeReg || len(parts) != 3 {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if files[parts[1]] == nil {
			files[parts[1]] = map[string][]byte{}
		}
		files[parts[1]][parts[2]] = data
	}
	var tests []*backendTest
	for name, parts := range files {
		b, err := newBackendTest(name, parts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		tests = append(tests, b)
	}
	slices.SortFunc(tests, func(a, b *backendTest) int { return strings.Compare(a.name, b.name) })
	return tests, nil
}

// newestOpset is the newest operator set that ONNX Runtime takes. Tests against later ones are read as this one: the
// operators in them that it has mean the same, and those that it has not make ONNX Runtime refuse the model.
const newestOpset = 26

func newBackendTest(name string, files map[string][]byte) (*backendTest, error) {
	m, err := ir.Load(files["model.onnx"])
	if err != nil {
		return nil, err
	}
	for _, o := range m.OpsetImport {
		if ir.IsStandard(o.Domain) {
			o.Version = min(o.Version, newestOpset)
		}
	}
	b := &backendTest{name: name, model: m}
	tensors := func(kind string, values []*onnxpb.ValueInfoProto) (out []*onnxpb.TensorProto, err error) {
		for i, v := range values {
			file := fmt.Sprintf("test_data_set_0/%s_%d.pb", kind, i)
			data, ok := files[file]
			if !ok {
				return nil, fmt.Errorf("%s is missing", file)
			}
			var t *onnxpb.TensorProto
			if v.GetType().GetTensorType() != nil {
				t = &onnxpb.TensorProto{}
				if err := proto.Unmarshal(data, t); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
			}
			out = append(out, t)
		}
		return out, nil
	}
	if b.inputs, err = tensors("input", m.Graph.Input); err != nil {
		return nil, err
	}
	b.outputs, err = tensors("output", m.Graph.Output)
	return b, err
}

const (
	elemHalf  = int32(onnxpb.TensorProto_FLOAT16)
	elemBrain = int32(onnxpb.TensorProto_BFLOAT16)
)

// floatValues decodes a constant of any floating-point type.
func floatValues(t *onnxpb.TensorProto) ([]float64, error) {
	width := map[int32]int{ir.Float32: 4, ir.Float64: 8, elemHalf: 2, elemBrain: 2}[t.GetDataType()]
	raw := t.GetRawData()
	if width == 0 || len(raw)%width != 0 {
		return nil, fmt.Errorf("tensor %q: element type %s, %d bytes", t.GetName(), ir.ElemName(t.GetDataType()), len(raw))
	}
	var out []float64
	for ; len(raw) > 0; raw = raw[width:] {
		switch t.GetDataType() {
		case ir.Float32:
			out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
		case ir.Float64:
			out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(raw)))
		default:
			out = append(out, smallFloat(t.GetDataType(), binary.LittleEndian.Uint16(raw)))
		}
	}
	for _, v := range t.GetFloatData() {
		out = append(out, float64(v))
	}
	out = append(out, t.GetDoubleData()...)
	for _, v := range t.GetInt32Data() { // holds the bits of 16-bit floats
		out = append(out, smallFloat(t.GetDataType(), uint16(v)))
	}
	if len(out) != count(t.Dims) {
		return nil, fmt.Errorf("tensor %q: %d values, wanted %v", t.GetName(), len(out), t.Dims)
	}
	return out, nil
}

// smallFloat decodes 16 bits: bfloat16 is the upper half of a float32, IEEE 754 binary16 has 5 exponent bits.
func smallFloat(elem int32, bits uint16) float64 {
	if elem == elemBrain {
		return float64(math.Float32frombits(uint32(bits) << 16))
	}
	sign := 1 - 2*float64(bits>>15)
	exp, frac := int(bits>>10&0x1f), float64(bits&0x3ff)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 0x1f:
		if frac != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// floatTensor is a constant of type float32 or float64.
func floatTensor(name string, elem int32, shape []int64, values []float64) *onnxpb.TensorProto {
	if elem == ir.Float64 {
		return ir.Float64Tensor(name, shape, values)
	}
	return ir.Float32Tensor(name, shape, narrow(values))
}

func narrow(values []float64) []float32 {
	out := make([]float32, len(values))
	for i, v := range values {
		out[i] = float32(v)
	}
	return out
}

func widen(values []float32) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}
