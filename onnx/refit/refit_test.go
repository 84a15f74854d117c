package refit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func random(t testing.TB, a model.Arch, seed uint64) model.Params {
	t.Helper()
	p, err := a.Init(func(i int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(i))) })
	must(t, err)
	rng := rand.New(rand.NewPCG(seed, 99))
	for _, x := range p { // normalisations begin as the identity
		for j := range x.Data {
			x.Data[j] += 0.1 * rng.Float32()
		}
	}
	return p
}

// outputs runs a session on x and its weights and gives all outputs.
func outputs(t testing.TB, s *ort.Session, x *ort.Tensor, names []string, weights []*ort.Tensor) [][]float32 {
	t.Helper()
	call, err := s.Bind(append([]string{lower.InputX}, names...), []string{lower.OutputLogits, lower.OutputScore})
	must(t, err)
	out := make([]*ort.Tensor, 2)
	must(t, call.Run(context.Background(), append([]*ort.Tensor{x}, weights...), out))
	values := make([][]float32, len(out))
	for i, v := range out {
		values[i] = slices.Clone(v.Data())
		v.Close()
	}
	return values
}

// TestFollowsWeights changes weights under a refitted model and compares it with a session that has the new ones built in.
func TestFollowsWeights(t *testing.T) {
	rt := runtimetest.Open(t)
	strided, err := model.Convnet([]int{1, 14, 14}, 10, []int{16, 32, 64}, []int{3}, []int{2}, []int{24}, model.Style{Act: model.SiLU})
	must(t, err)
	plain, err := model.Convnet([]int{3, 9, 7}, 4, []int{8, 16, 5}, []int{3}, []int{1}, nil, model.Style{Act: model.LeakyReLU})
	must(t, err)
	mlp, err := model.MLP([]int{20}, 5, []int{32, 16}, model.Style{Act: model.Tanh})
	must(t, err)
	networks := map[string]model.Arch{"strided": strided, "plain": plain, "mlp": mlp}
	for _, norm := range append(model.Norms, model.NoNorm) {
		wide, err := model.WideResNet([]int{3, 8, 8}, 5, 10, 2, model.Style{Act: model.LeakyReLU, Norm: norm, Groups: 4})
		must(t, err)
		networks["wide_resnet "+string(norm)] = wide
	}
	for name, a := range networks {
		t.Run(name, func(t *testing.T) {
			p := random(t, a, 1)
			m, err := lower.Score(a, p, lower.Options{Refit: true})
			must(t, err)
			before := ir.Clone(m)
			live, err := Open(rt, m, p, ort.SessionOptions{Threads: 1})
			must(t, err)
			defer live.Close()
			if live.Plain() != "" {
				t.Errorf("the weights are not rearranged: %s", live.Plain())
			}
			if a, b := marshalled(t, before), marshalled(t, m); !slices.Equal(a, b) {
				t.Error("the model was changed")
			}
			x := input(t, 6, a)
			for seed := range uint64(3) {
				for i, q := range random(t, a, 2+seed) {
					copy(p[i].Data, q.Data)
				}
				live.Update()
				got := outputs(t, live.Session(), x, live.Names(), live.Tensors())
				want := builtIn(t, rt, a, p, x)
				for i := range got {
					compare(t, got[i], want[i])
				}
			}
		})
	}
}

func marshalled(t testing.TB, m *onnxpb.ModelProto) []byte {
	t.Helper()
	data, err := ir.Marshal(m)
	must(t, err)
	return data
}

func input(t testing.TB, n int, a model.Arch) *ort.Tensor {
	t.Helper()
	shape := []int64{int64(n)}
	for _, d := range a.Input {
		shape = append(shape, int64(d))
	}
	x, err := ort.Float32(shape, nil)
	must(t, err)
	t.Cleanup(x.Close)
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range x.Data() {
		x.Data()[i] = 2*rng.Float32() - 1
	}
	return x
}

func builtIn(t testing.TB, rt *ort.Runtime, a model.Arch, p model.Params, x *ort.Tensor) [][]float32 {
	t.Helper()
	m, err := lower.Score(a, p, lower.Options{})
	must(t, err)
	s, err := rt.Session(marshalled(t, m), ort.SessionOptions{Threads: 1})
	must(t, err)
	defer s.Close()
	return outputs(t, s, x, nil, nil)
}

func compare(t *testing.T, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d values, want %d", len(got), len(want))
	}
	var diff, size float64
	for i := range got {
		diff += math.Pow(float64(got[i]-want[i]), 2)
		size += math.Pow(float64(want[i]), 2)
	}
	if !(diff <= 1e-12*size) || size == 0 {
		t.Errorf("relative difference %.3g, want at most 1e-6", math.Sqrt(diff/size))
	}
}
