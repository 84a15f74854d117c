package stages

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func BenchmarkChain(b *testing.B) {
	for _, net := range []struct {
		name string
		arch func() (model.Arch, error)
	}{
		{"8x8", func() (model.Arch, error) {
			return model.Convnet([]int{1, 8, 8}, 10, []int{16, 32, 64}, []int{3}, []int{1, 2, 2}, []int{64}, model.SiLU)
		}},
		{"8x8s2", func() (model.Arch, error) {
			return model.Convnet([]int{1, 8, 8}, 10, []int{32, 64}, []int{3}, []int{2}, []int{64}, model.SiLU)
		}},
		{"28x28", func() (model.Arch, error) {
			return model.Convnet([]int{1, 28, 28}, 10, []int{16, 32, 64, 64}, []int{5, 3, 3, 3}, []int{2}, []int{64}, model.SiLU)
		}},
	} {
		arch, err := net.arch()
		if err != nil {
			b.Fatal(err)
		}
		params, err := arch.Init(func(i int) *rand.Rand { return keyed.New(1, "i").At(uint64(i), 0).Rand })
		if err != nil {
			b.Fatal(err)
		}
		rt, err := ort.Open(ort.Config{Provider: "cpu"}, slog.Default())
		if err != nil {
			b.Skip(err)
		}
		defer rt.Close()
		cfg := langevin.Config{Steps: 20, StepSize: 10, NoiseStd: .005, GradClip: .03, Clamp: true, Lo: -1, Hi: 1}
		c := langevin.Chains{X: make([]float32, 64*arch.Size()), Keys: make([]uint64, 64)}
		b.Run(net.name+"/inputs", func(b *testing.B) {
			live, err := newLiveModel(rt, bundle{Arch: arch, Params: params}, liveOptions{densities: 2})
			if err != nil {
				b.Fatal(err)
			}
			defer live.Close()
			s, _ := langevin.NewSampler(cfg, arch.Size(), keyed.New(1, "x"), live.densities...)
			for b.Loop() {
				if _, err := s.Run(context.Background(), c, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(net.name+"/rebuilt", func(b *testing.B) {
			for b.Loop() {
				g, _ := lower.Score(arch, params, lower.Options{})
				data, _ := ir.Marshal(g)
				sess, err := rt.Session(data, ort.SessionOptions{Threads: 1})
				if err != nil {
					b.Fatal(err)
				}
				d1, _ := langevin.NewONNX(sess, arch.Input, 10, false, nil, nil)
				d2, _ := langevin.NewONNX(sess, arch.Input, 10, false, nil, nil)
				s, _ := langevin.NewSampler(cfg, arch.Size(), keyed.New(1, "x"), d1, d2)
				if _, err := s.Run(context.Background(), c, nil); err != nil {
					b.Fatal(err)
				}
				d1.Close()
				d2.Close()
				sess.Close()
			}
		})
		b.Run(net.name+"/build", func(b *testing.B) {
			for b.Loop() {
				g, _ := lower.Score(arch, params, lower.Options{})
				data, _ := ir.Marshal(g)
				sess, err := rt.Session(data, ort.SessionOptions{Threads: 1})
				if err != nil {
					b.Fatal(err)
				}
				sess.Close()
			}
		})
	}
}
