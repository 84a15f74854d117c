package intake

import (
	"math"
	"slices"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func TestDropSubnormals(t *testing.T) {
	values := []float32{0, 1, -1, least, -least, least / 2, -least / 2, math.SmallestNonzeroFloat32, float32(math.Inf(-1))}
	want := []float32{0, 1, -1, least, -least, 0, 0, 0, float32(math.Inf(-1))}
	m := ir.NewModel("weights", 8, 17)
	m.Graph.Initializer = []*onnxpb.TensorProto{
		ir.Float32Tensor("raw", []int64{9}, values),
		{Name: "listed", DataType: ir.Float32, Dims: []int64{9}, FloatData: slices.Clone(values)},
	}
	dropSubnormals(m)
	for _, w := range m.Graph.Initializer {
		got, err := ir.Float32s(w)
		must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", w.Name, got, want)
		}
	}
}
