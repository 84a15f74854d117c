package stages

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// BenchmarkChain is what a training step spends on 64 chains of 20 updates, with weights that change between steps.
func BenchmarkChain(b *testing.B) {
	rt, err := ort.Open(ort.Config{Provider: "cpu"}, nil)
	if err != nil {
		b.Skip(err)
	}
	defer rt.Close()
	for _, net := range []struct {
		name     string
		side     int
		channels []int
	}{{"8x8", 8, []int{32, 64}}, {"28x28", 28, []int{16, 32, 64, 64}}} {
		b.Run(net.name, func(b *testing.B) {
			arch, err := model.Convnet([]int{1, net.side, net.side}, 10, net.channels, []int{3}, []int{2}, []int{64}, model.Style{Act: model.SiLU})
			if err != nil {
				b.Fatal(err)
			}
			params, err := arch.Init(func(i int) *rand.Rand { return keyed.New(1, "weights").At(uint64(i), 0).Rand })
			if err != nil {
				b.Fatal(err)
			}
			live, err := newLiveModel(rt, bundle{Arch: arch, Params: params}, liveOptions{densities: 2})
			if err != nil {
				b.Fatal(err)
			}
			defer live.Close()
			cfg := langevin.Config{Steps: 20, StepSize: 1, NoiseStd: 0.01, Clamp: true, Lo: -1, Hi: 1}
			s, err := langevin.NewSampler(cfg, arch.Size(), keyed.New(1, "noise"), live.densities...)
			if err != nil {
				b.Fatal(err)
			}
			c := langevin.Chains{X: make([]float32, 64*arch.Size()), Keys: make([]uint64, 64)}
			for b.Loop() {
				if _, err := s.Run(context.Background(), c, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
