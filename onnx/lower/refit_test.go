package lower

import (
	"slices"
	"testing"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// TestScoresForRefitAreTheSame compares the score of a graph for refitting with that of one that stays, and sees that no
// matrix of a whole operation is built from its weights.
func TestScoresForRefitAreTheSame(t *testing.T) {
	a, err := model.Convnet([]int{1, 16, 16}, 5, []int{16, 32, 32}, []int{3}, []int{2}, []int{8}, model.Style{Act: model.SiLU})
	must(t, err)
	p := params(t, a)
	x := samples(5, a.Input, 1)
	matrices := func(m *onnxpb.ModelProto) int {
		n := 0
		for _, node := range m.Graph.Node {
			if node.OpType == "EyeLike" {
				n++
			}
		}
		return n
	}
	stays, err := Score(a, p, Options{})
	must(t, err)
	refits, err := Score(a, p, Options{Refit: true})
	must(t, err)
	if n, m := matrices(stays), matrices(refits); n == 0 || m != 0 {
		t.Errorf("%d matrices of whole operations, for refitting %d; want some, and none", n, m)
	}
	for _, m := range []*onnxpb.ModelProto{stays, refits} {
		must(t, ir.Check(m))
	}
	want := run(t, load(t, stays), tensor(t, append([]int{5}, a.Input...), slices.Clone(x)))
	got := run(t, load(t, refits), tensor(t, append([]int{5}, a.Input...), slices.Clone(x)))
	for _, name := range []string{OutputLogits, OutputEnergy, OutputScore} {
		near(t, name, got[name], widened(want[name]), 1e-5)
	}
}

func widened(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
