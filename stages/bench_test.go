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
// and with constant weights, as the sgld stage does, each with one call of the model an update and with one for all, and
// without a model: what the sampler itself takes. They run in turns, and the shortest time of each counts, since other work on the machine makes times longer, never
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
			names := []string{"changing-ms", "changing-walk-ms", "constant-ms", "constant-walk-ms", "sampler-ms"}
			runs, times := make([]func(), len(names)), make([]float64, len(names))
			for i := range runs {
				times[i] = math.Inf(1)
				runs[i] = chainRun(b, arch.Size(), i%2*20, func(rule langevin.Rule) []langevin.Density {
					if i == 4 {
						return []langevin.Density{free{}, free{}}
					}
					live, err := newLiveModel(rt, bundle{Arch: arch, Params: params}, liveOptions{densities: 2, frozen: i >= 2, rule: rule})
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(live.Close)
					return live.densities
				})
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

// free is a density that costs nothing.
type free struct{}

func (free) Gradient(context.Context, []float32, []int32, []float64, []float32) error { return nil }

// chainRun prepares the chains of a training step.
func chainRun(b *testing.B, dim, stepsPerCall int, densities func(langevin.Rule) []langevin.Density) func() {
	rule := langevin.Default()
	rule.StepsPerCall = stepsPerCall
	s, err := langevin.NewSampler(rule, dim, keyed.New(1, "noise"), densities(rule)...)
	if err != nil {
		b.Fatal(err)
	}
	c := langevin.Chains{X: make([]float32, 64*dim), Keys: make([]uint64, 64)}
	return func() {
		if _, err := s.Run(context.Background(), c, nil); err != nil {
			b.Fatal(err)
		}
	}
}
