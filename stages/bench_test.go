package stages

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// BenchmarkChain is 64 chains of 20 updates in two shares, with weights that change between steps, as training runs them,
// and with constant weights, as the sgld stage does, each with one call of the model an update and with one for all. The
// four run in turns, and the shortest time of each counts, since other work on the machine makes times longer, never
// shorter.
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
			names := []string{"inputs-ms", "inputs-walk-ms", "constant-ms", "constant-walk-ms"}
			runs, times := make([]func(), len(names)), make([]float64, len(names))
			for i := range runs {
				runs[i] = chainRun(b, rt, bundle{Arch: arch, Params: params}, i%2*20, i >= 2)
				times[i] = math.Inf(1)
			}
			for b.Loop() {
				for i, run := range runs {
					started := time.Now()
					run()
					times[i] = min(times[i], time.Since(started).Seconds()*1e3)
				}
			}
			for i, name := range names {
				b.ReportMetric(times[i], name)
			}
		})
	}
}

// chainRun prepares the chains of a training step.
func chainRun(b *testing.B, rt *ort.Runtime, m bundle, stepsPerCall int, frozen bool) func() {
	rule := langevin.Default()
	rule.StepsPerCall = stepsPerCall
	live, err := newLiveModel(rt, m, liveOptions{densities: 2, frozen: frozen, rule: rule})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(live.Close)
	s, err := langevin.NewSampler(rule, m.Arch.Size(), keyed.New(1, "noise"), live.densities...)
	if err != nil {
		b.Fatal(err)
	}
	c := langevin.Chains{X: make([]float32, 64*m.Arch.Size()), Keys: make([]uint64, 64)}
	return func() {
		if _, err := s.Run(context.Background(), c, nil); err != nil {
			b.Fatal(err)
		}
	}
}
