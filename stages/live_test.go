package stages

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// TestLiveModelFollowsWeights changes the weights under a live model and compares its chains and logits with those of a
// model that has the new weights built in.
func TestLiveModelFollowsWeights(t *testing.T) {
	if _, err := ort.Find(""); err != nil {
		t.Skipf("ONNX Runtime is not installed: %v", err)
	}
	rt, err := ort.Open(ort.Config{Provider: "cpu"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	arch, err := model.Convnet([]int{1, 8, 8}, 4, []int{16, 32}, []int{3}, []int{2}, []int{12}, model.Style{Act: model.SiLU, Norm: model.BatchNorm})
	if err != nil {
		t.Fatal(err)
	}
	draw := func(seed uint64) model.Params {
		p, err := arch.Init(func(i int) *rand.Rand { return keyed.New(seed, "weights").At(uint64(i), 0).Rand })
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	rule := langevin.Default()
	rule.Steps = 3
	live := draw(1)
	walk, predict := chainsOf(t, rt, bundle{Arch: arch, Params: live}, rule, false)
	for seed := range uint64(3) {
		now := draw(2 + seed)
		for i := range live {
			copy(live[i].Data, now[i].Data)
		}
		frozenWalk, frozenPredict := chainsOf(t, rt, bundle{Arch: arch, Params: now}, rule, true)
		for _, conditional := range []bool{false, true} {
			equalUpTo(t, "chains", walk(conditional), frozenWalk(conditional), 1e-5)
		}
		equalUpTo(t, "logits", predict(), frozenPredict(), 1e-5)
	}
}

// chainsOf gives functions that run chains from a fixed start and predict fixed rows.
func chainsOf(t *testing.T, rt *ort.Runtime, b bundle, rule langevin.Rule, frozen bool) (walk func(conditional bool) []float32, predict func() []float32) {
	t.Helper()
	m, err := newLiveModel(rt, b, liveOptions{densities: 2, conditional: true, frozen: frozen, rule: rule})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	s, err := langevin.NewSampler(rule, b.Arch.Size(), keyed.New(1, "noise"), m.densities...)
	if err != nil {
		t.Fatal(err)
	}
	logits, err := m.predictor(rt)
	if err != nil {
		t.Fatal(err)
	}
	start := func() []float32 {
		rng := rand.New(rand.NewPCG(5, 5))
		x := make([]float32, 6*b.Arch.Size())
		for i := range x {
			x[i] = 2*rng.Float32() - 1
		}
		return x
	}
	walk = func(conditional bool) []float32 {
		c := langevin.Chains{X: start(), Keys: []uint64{1, 2, 3, 4, 5, 6}}
		if conditional {
			c.Classes = []int32{0, 1, 2, 3, 0, 1}
		}
		if _, err := s.Run(context.Background(), c, nil); err != nil {
			t.Fatal(err)
		}
		return c.X
	}
	predict = func() []float32 {
		z, err := logits(context.Background(), start())
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	return walk, predict
}

func equalUpTo(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= tol*(1+math.Abs(float64(want[i])))) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}
