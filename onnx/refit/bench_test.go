package refit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// chainNetworks are the networks of the speed targets: the convnet of the recipe for 28x28, one of leaky ReLU, and WRN-10-2 for 32x32.
func chainNetworks(b *testing.B) map[string]model.Arch {
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

// pass is one way to compute the scores of 64 rows with weights that change.
type pass struct {
	name  string
	parts int
	call  *ort.Call
	in    [][]*ort.Tensor
	out   [][]*ort.Tensor
}

func newPass(b *testing.B, name string, a model.Arch, s *ort.Session, parts int, names []string, weights []*ort.Tensor) *pass {
	b.Helper()
	p := &pass{name: name, parts: parts}
	var err error
	p.call, err = s.Bind(append([]string{lower.InputX}, names...), []string{lower.OutputLogits, lower.OutputScore})
	must(b, err)
	rows := 64 / parts
	for range parts {
		logits, err := ort.Float32([]int64{int64(rows), int64(a.Classes)}, nil)
		must(b, err)
		b.Cleanup(logits.Close)
		p.in = append(p.in, append([]*ort.Tensor{input(b, rows, a)}, weights...))
		p.out = append(p.out, []*ort.Tensor{logits, input(b, rows, a)})
	}
	return p
}

func (p *pass) run() {
	var wait sync.WaitGroup
	for k := range p.parts {
		wait.Go(func() {
			if err := p.call.Run(context.Background(), p.in[k], p.out[k]); err != nil {
				panic(err)
			}
		})
	}
	wait.Wait()
}

// BenchmarkScores measures in turns a score of 64 rows in two runs of 32 side by side: with the weights built in, refitted, and
// as plain inputs, and what it costs to follow a change of the weights: to load a model with the new ones, and to update
// a refitted one.
func BenchmarkScores(b *testing.B) {
	rt := runtimetest.Open(b)
	for name, a := range chainNetworks(b) {
		p := random(b, a, 1)
		m, err := lower.Score(a, p, lower.Options{})
		must(b, err)
		open, err := lower.Score(a, p, lower.Options{ParamsAsInputs: true})
		must(b, err)
		one := ort.SessionOptions{Threads: 1}
		builtIn, err := rt.Session(marshalled(b, m), one)
		must(b, err)
		defer builtIn.Close()
		plain, err := rt.Session(marshalled(b, open), one)
		must(b, err)
		defer plain.Close()
		live, err := Open(rt, m, p, one)
		must(b, err)
		defer live.Close()
		var names []string
		var tensors []*ort.Tensor
		for _, t := range p {
			shape := make([]int64, len(t.Shape))
			for i, d := range t.Shape {
				shape[i] = int64(d)
			}
			v, err := ort.Float32(shape, t.Data)
			must(b, err)
			defer v.Close()
			names, tensors = append(names, t.Name), append(tensors, v)
		}
		for _, parts := range []int{1, 2} {
			passes := []*pass{
				newPass(b, "built-in", a, builtIn, parts, nil, nil),
				newPass(b, "refitted", a, live.Session(), parts, live.Names(), live.Tensors()),
				newPass(b, "inputs", a, plain, parts, names, tensors),
			}
			b.Run(fmt.Sprintf("%s/runs=%d", name, parts), func(b *testing.B) {
				times := make([][]float64, len(passes)+2)
				timed := func(k int, f func()) {
					start := time.Now()
					f()
					times[k] = append(times[k], float64(time.Since(start)))
				}
				for b.Loop() {
					for k, p := range passes {
						timed(k, p.run)
					}
					timed(len(passes), live.Update)
				}
				for range 5 {
					timed(len(passes)+1, func() {
						s, err := rt.Session(marshalled(b, m), one)
						must(b, err)
						must(b, s.Close())
					})
				}
				for k, p := range passes {
					b.ReportMetric(slices.Min(times[k])/1e3, p.name+"-us")
				}
				b.ReportMetric(slices.Min(times[len(passes)])/1e3, "update-us")
				b.ReportMetric(slices.Min(times[len(passes)+1])/1e3, "load-us")
			})
		}
	}
}
