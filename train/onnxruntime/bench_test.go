package onnxruntime

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/train/gorgonia"
)

// speedNetworks are the networks of the speed targets: the convnet of the recipe for 28x28, one of leaky ReLU, and WRN-10-2 for 32x32.
func speedNetworks(b testing.TB) map[string]model.Arch {
	b.Helper()
	recipe, err := model.Convnet([]int{1, 28, 28}, 10, []int{16, 32, 64, 64}, []int{5, 3, 3, 3}, []int{2}, []int{64}, model.Style{Act: model.SiLU})
	must(b, err)
	recipe.Layers[0].Pad = 4
	leaky, err := model.Convnet([]int{1, 28, 28}, 10, []int{32, 64}, []int{3}, []int{2}, []int{128}, model.Style{Act: model.LeakyReLU})
	must(b, err)
	wide, err := model.WideResNet([]int{3, 32, 32}, 10, 10, 2, model.Style{Act: model.LeakyReLU})
	must(b, err)
	return map[string]model.Arch{"a-recipe": recipe, "b-leaky": leaky, "c-wide": wide}
}

// BenchmarkGradients measures in turns the parameter gradients of the 128 rows of a step (64 data rows that are labelled
// too, and 64 samples): by this engine, with the same graph but plain weight inputs, and by gorgonia.
func BenchmarkGradients(b *testing.B) {
	const rows = 128
	rt := runtimetest.Open(b)
	for name, a := range speedNetworks(b) {
		for _, shards := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/shards=%d", name, shards), func(b *testing.B) {
				p := draw(b, a, 1)
				e := engine(b, a, p, rows, shards, 1)
				other, err := gorgonia.New(a, p, rows, shards, 1)
				must(b, err)
				defer other.Close()
				data := batch(a, rows, 1)
				ways := []struct {
					name string
					run  func()
				}{
					{"refitted", func() { gradients(b, e, data) }},
					{"inputs", plainGradients(b, rt, a, p, rows, shards)},
					{"gorgonia", func() {
						_, err := other.Gradients(data)
						must(b, err)
					}},
				}
				times := make([][]float64, len(ways))
				for b.Loop() {
					for k, w := range ways {
						start := time.Now()
						w.run()
						times[k] = append(times[k], float64(time.Since(start)))
					}
				}
				for k, w := range ways {
					b.ReportMetric(slices.Min(times[k])/1e3, w.name+"-us")
				}
			})
		}
	}
}

// plainGradients runs the graph of the engine with weights that are inputs as they are.
func plainGradients(b *testing.B, rt *ort.Runtime, a model.Arch, p model.Params, rows, shards int) func() {
	b.Helper()
	m, err := lower.Loss(a, p, lower.Options{ParamsAsInputs: true})
	must(b, err)
	data, err := ir.Marshal(m)
	must(b, err)
	s, err := rt.Session(data, ort.SessionOptions{Threads: 1})
	must(b, err)
	b.Cleanup(func() { must(b, s.Close()) })
	call, err := s.Bind(nil, nil)
	must(b, err)
	var weights []*ort.Tensor
	for _, v := range p {
		shape := make([]int64, len(v.Shape))
		for i, d := range v.Shape {
			shape[i] = int64(d)
		}
		t, err := ort.Float32(shape, v.Data)
		must(b, err)
		b.Cleanup(t.Close)
		weights = append(weights, t)
	}
	parts := make([]*shard, shards)
	for i := range parts {
		parts[i], err = (&Engine{arch: a, grads: p, group: 1}).newShard(rows/shards, weights)
		must(b, err)
		b.Cleanup(parts[i].close)
	}
	return func() {
		var wait sync.WaitGroup
		for _, s := range parts {
			wait.Go(func() {
				if err := call.Run(context.Background(), s.in, s.out); err != nil {
					b.Error(err)
				}
			})
		}
		wait.Wait()
	}
}
