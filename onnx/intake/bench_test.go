package intake

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// benchBatch is the number of rows in a batch of the benchmarks.
const benchBatch = 64

// jemNets are networks of our own: that of pipeline.yaml, and one for 28x28.
var jemNets = []struct {
	name             string
	input            []int
	channels, hidden []int
}{
	{"jem-8x8", []int{1, 8, 8}, []int{32, 64}, []int{64}},
	{"jem-28x28", []int{1, 28, 28}, []int{32, 64}, nil},
}

// pair is a classifier with the outputs logits and energy, and the same with the score.
type pair struct {
	name           string
	forward, score *onnxpb.ModelProto
	shape          []int     // of a sample
	x              []float32 // benchBatch samples
}

// pairs are the networks of our own and those public classifiers that can be differentiated.
func pairs(b *testing.B) []pair {
	b.Helper()
	var list []pair
	for _, n := range jemNets {
		a, err := model.Convnet(n.input, 10, n.channels, []int{3}, []int{2}, n.hidden, model.Style{Act: model.SiLU})
		must(b, err)
		p, err := a.Init(func(i int) *rand.Rand { return rand.New(rand.NewPCG(1, uint64(i))) })
		must(b, err)
		forward, err := lower.Classifier(a, p, lower.Options{})
		must(b, err)
		score, err := lower.Score(a, p, lower.Options{})
		must(b, err)
		x := make([]float32, benchBatch*size(n.input))
		rng := rand.New(rand.NewPCG(2, 2))
		for i := range x {
			x[i] = 2*rng.Float32() - 1
		}
		list = append(list, pair{n.name, forward, score, n.input, x})
	}
	for _, p := range publicModels {
		if p.noGradient != "" {
			continue
		}
		c, x := p.open(b, benchBatch)
		forward := ir.Clone(c.Model)
		must(b, c.AddScore(lower.Energy, false))
		list = append(list, pair{p.name, forward, c.Model, c.Preprocess.SampleShape, x})
	}
	for i := range list {
		list[i].forward = withOutputs(b, list[i].forward, lower.OutputLogits, lower.OutputEnergy)
		list[i].score = withOutputs(b, list[i].score, lower.OutputLogits, lower.OutputEnergy, lower.OutputScore)
	}
	return list
}

func withOutputs(b *testing.B, m *onnxpb.ModelProto, names ...string) *onnxpb.ModelProto {
	b.Helper()
	m, err := ir.Extract(m, []string{lower.InputX}, names)
	must(b, err)
	return m
}

// BenchmarkGradient measures the score of a batch of 64 rows in turns with the forward pass, and reports how many
// forward passes a score takes: with one thread, with two, and with halves of the batch side by side that have a thread
// each, as chains and training run. $JEMPIPE_BENCH_MODELS names a folder to put the models
// in, for tools that measure the same networks otherwise.
func BenchmarkGradient(b *testing.B) {
	runtimetest.Open(b)
	dir := os.Getenv("JEMPIPE_BENCH_MODELS")
	for _, p := range pairs(b) {
		if dir != "" {
			p.save(b, dir)
		}
		b.Run(p.name, func(b *testing.B) {
			modes := []struct {
				name           string
				threads, parts int
			}{{"1t", 1, 1}, {"2t", 2, 1}, {"2x1t", 1, 2}}
			var runs []func()
			for _, m := range modes {
				runs = append(runs, p.timed(b, p.forward, m.threads, m.parts), p.timed(b, p.score, m.threads, m.parts))
			}
			times := make([][]time.Duration, len(runs))
			for b.Loop() {
				for i, run := range runs {
					start := time.Now()
					run()
					times[i] = append(times[i], time.Since(start))
				}
			}
			for i, m := range modes {
				forward, score := shortest(times[2*i]), shortest(times[2*i+1])
				b.ReportMetric(forward*1e3, "forward-ms-"+m.name)
				b.ReportMetric(score*1e3, "score-ms-"+m.name)
				b.ReportMetric(score/forward, "ratio-"+m.name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// shortest is the shortest of some times, in seconds: other work on the machine makes runs longer, never shorter.
func shortest(times []time.Duration) float64 { return slices.Min(times).Seconds() }

// timed loads a model and binds tensors, those of each part of the batch for itself, that are used again and again.
func (p pair) timed(b *testing.B, m *onnxpb.ModelProto, threads, parts int) func() {
	b.Helper()
	// Threads that went on spinning behind a run would take a core from the next session.
	options := map[string]string{"session.force_spinning_stop": "1"}
	r, err := ort.Open(ort.Config{Provider: "cpu", Threads: threads, Options: options}, nil)
	must(b, err)
	data, err := ir.Marshal(m)
	must(b, err)
	s, err := r.Session(data, ort.SessionOptions{Threads: threads})
	must(b, err)
	b.Cleanup(func() { must(b, s.Close()) })
	rows := benchBatch / parts
	tensor := func(shape []int64, values []float32) *ort.Tensor {
		t, err := ort.Float32(append([]int64{int64(rows)}, shape...), values)
		must(b, err)
		b.Cleanup(t.Close)
		return t
	}
	var calls []func()
	for k := range parts {
		call, err := s.Bind(nil, nil)
		must(b, err)
		width := size(p.shape)
		in := []*ort.Tensor{tensor(sizes(p.shape), p.x[k*rows*width:(k+1)*rows*width])}
		var out []*ort.Tensor
		for _, v := range s.Outputs() {
			n := int64(rows)
			for _, d := range v.Shape[1:] {
				n *= d
			}
			out = append(out, tensor(v.Shape[1:], make([]float32, n)))
		}
		calls = append(calls, func() {
			if err := call.Run(context.Background(), in, out); err != nil {
				b.Error(err)
			}
		})
	}
	if parts == 1 {
		return calls[0]
	}
	return func() {
		var wait sync.WaitGroup
		for _, call := range calls {
			wait.Go(call)
		}
		wait.Wait()
	}
}

// save writes the two models and the batch.
func (p pair) save(b *testing.B, dir string) {
	b.Helper()
	must(b, os.MkdirAll(dir, 0o777))
	for kind, m := range map[string]*onnxpb.ModelProto{"forward": p.forward, "score": p.score} {
		data, err := ir.Marshal(m)
		must(b, err)
		must(b, os.WriteFile(filepath.Join(dir, p.name+"."+kind+".onnx"), data, 0o666))
	}
	x := ir.Float32Tensor(lower.InputX, append([]int64{benchBatch}, sizes(p.shape)...), p.x)
	must(b, os.WriteFile(filepath.Join(dir, p.name+".x.f32"), x.RawData, 0o666))
}
