package lower

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
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// mnistNet is the network of the speed targets: 28x28, three strided convolutions, two dense layers, SiLU.
func mnistNet() model.Arch {
	return model.Arch{Name: "mnist", Input: []int{1, 28, 28}, Classes: 10, Layers: []model.Layer{
		{Kind: model.Conv, Name: "conv1", Out: 16, Kernel: 5, Stride: 2, Pad: 2},
		{Kind: model.Act, Name: "act1", Func: model.SiLU},
		{Kind: model.Conv, Name: "conv2", Out: 32, Kernel: 3, Stride: 2, Pad: 1},
		{Kind: model.Act, Name: "act2", Func: model.SiLU},
		{Kind: model.Conv, Name: "conv3", Out: 64, Kernel: 3, Stride: 2, Pad: 1},
		{Kind: model.Act, Name: "act3", Func: model.SiLU},
		{Kind: model.Flatten, Name: "flat"},
		{Kind: model.Dense, Name: "fc1", Out: 64},
		{Kind: model.Act, Name: "act4", Func: model.SiLU},
		{Kind: model.Dense, Name: "fc2", Out: 10},
	}}
}

// prepared is a model with its inputs and outputs in place, cut into parts of equal rows that run side by side.
func prepared(b *testing.B, m *onnxpb.ModelProto, p model.Params, threads, parts int) func() {
	b.Helper()
	data, err := ir.Marshal(m)
	must(b, err)
	r := runtimetest.Open(b)
	s, err := r.Session(data, ort.SessionOptions{Threads: threads})
	must(b, err)
	b.Cleanup(func() { must(b, s.Close()) })
	in, out := make([][]*ort.Tensor, parts), make([][]*ort.Tensor, parts)
	rows := 64 / parts
	for k := range parts {
		in[k] = []*ort.Tensor{tensor(b, []int{rows, 1, 28, 28}, samples(rows, []int{784}, 1))}
		for _, v := range s.Inputs()[1:] {
			t, _ := p.Lookup(v.Name)
			in[k] = append(in[k], tensor(b, t.Shape, t.Data))
		}
		for _, v := range s.Outputs() {
			shape := []int{rows}
			for _, d := range v.Shape[1:] {
				shape = append(shape, int(d))
			}
			out[k] = append(out[k], tensor(b, shape, nil))
		}
	}
	return func() {
		var wait sync.WaitGroup
		for k := range parts {
			wait.Go(func() {
				if err := s.Run(context.Background(), in[k], out[k]); err != nil {
					b.Error(err)
				}
			})
		}
		wait.Wait()
	}
}

// BenchmarkScore measures the score graph in turns with the forward graph at batch 64 and reports how many forward
// passes a score takes: with the parameters built in and as inputs, with one thread, with two threads in one run, and
// with two runs of half the rows side by side.
func BenchmarkScore(b *testing.B) {
	a := mnistNet()
	p := params(b, a)
	forward, err := Classifier(a, p, Options{})
	must(b, err)
	for _, asInputs := range []bool{false, true} {
		m, err := Score(a, p, Options{ParamsAsInputs: asInputs})
		must(b, err)
		for _, k := range []struct{ threads, parts int }{{1, 1}, {2, 1}, {1, 2}} {
			b.Run(fmt.Sprintf("inputs=%v/threads=%d/runs=%d", asInputs, k.threads, k.parts), func(b *testing.B) {
				score, base := prepared(b, m, p, k.threads, k.parts), prepared(b, forward, p, k.threads, k.parts)
				var scored, based []float64
				for b.Loop() {
					t0 := time.Now()
					base()
					t1 := time.Now()
					score()
					based, scored = append(based, float64(t1.Sub(t0))), append(scored, float64(time.Since(t1)))
				}
				b.ReportMetric(slices.Min(based)/1e3, "forward-us")
				b.ReportMetric(slices.Min(scored)/1e3, "score-us")
				b.ReportMetric(slices.Min(scored)/slices.Min(based), "score/forward")
			})
		}
	}
}
