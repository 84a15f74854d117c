package langevin

import (
	"context"
	"testing"

	"github.com/jempipe/jempipe/internal/augment"
	"github.com/jempipe/jempipe/internal/keyed"
)

// The chains of a training step on 28x28 pictures.
const (
	benchChains = 64
	benchDim    = 784
	benchSteps  = 20
)

// still is a density that costs nothing: what is left is the sampler.
type still struct{ grad []float32 }

func (s *still) Gradient(_ context.Context, _ []float32, _ []int32, logp []float64, grad []float32) error {
	copy(grad, s.grad)
	return nil
}

func benchGradient() []float32 {
	g := make([]float32, benchChains*benchDim)
	keyed.New(1, "gradient").Normals(g, 0, 0)
	for i := range g {
		g[i] *= 0.1 // about a third of the elements is clipped
	}
	return g
}

// BenchmarkSampler is all that 20 updates of 64 chains cost beside the model, on one core and on two. Set beside the time
// of BenchmarkChain in package stages it gives the share of a step.
func BenchmarkSampler(b *testing.B) {
	g := benchGradient()
	rule := Default()
	for name, densities := range map[string][]Density{"shares=1": {&still{g}}, "shares=2": {&still{g}, &still{g[len(g)/2:]}}} {
		b.Run(name, func(b *testing.B) {
			s, err := NewSampler(rule, benchDim, keyed.New(1, "noise"), densities...)
			if err != nil {
				b.Fatal(err)
			}
			c := chains(benchChains, benchDim)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Run(context.Background(), c, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParts measures what BenchmarkSampler consists of, each for 20 updates of 64 chains on one core, and the
// buffer and the statistics of the step.
func BenchmarkParts(b *testing.B) {
	n := benchChains * benchDim
	g, x, z := benchGradient(), make([]float32, n), make([]float32, n)
	src := keyed.New(1, "noise")
	src.Normals(z, 1, 1)
	s, err := NewSampler(Default(), benchDim, src, &still{g})
	if err != nil {
		b.Fatal(err)
	}
	c := chains(benchChains, benchDim)
	u := s.update(0)
	uneven := u
	uneven.lo, uneven.symmetrical = -0.9, false
	twenty := func(name string, do func(k int)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for k := range benchSteps {
					do(k)
				}
			}
		})
	}
	twenty("noise", func(k int) { s.normals(z, c.Keys, k, 1) })
	twenty("clip, step and clamp", func(int) { move(x, g, z, u) })
	twenty("with an uneven range", func(int) { move(x, g, z, uneven) })
	twenty("finite", func(int) { finite(g) })
	twenty("two copies", func(int) { copy(x, z); copy(z, x) })
	b.Run("draw and put", func(b *testing.B) {
		buffer, err := NewBuffer(BufferConfig{Size: 10000, Shape: []int{1, 28, 28}, Start: Uniform{-1, 1}}, src)
		if err != nil {
			b.Fatal(err)
		}
		slots, rng := make([]int, benchChains), src.At(0, 0)
		for b.Loop() {
			buffer.Draw(x, slots, nil, 0.05, rng.Rand)
			buffer.Put(slots, x)
		}
	})
	b.Run("draw with augmentation", func(b *testing.B) {
		buffer, err := NewBuffer(BufferConfig{Size: 10000, Shape: []int{1, 28, 28}, Start: Uniform{-1, 1}, Augment: augment.Config{Shift: 2, Flip: true}}, src)
		if err != nil {
			b.Fatal(err)
		}
		slots, rng := make([]int, benchChains), src.At(0, 0)
		for b.Loop() {
			buffer.Draw(x, slots, nil, 0.05, rng.Rand)
		}
	})
	b.Run("64 class Gaussians", func(b *testing.B) {
		rows := make([]float32, maxGaussianRows*benchDim)
		src.Normals(rows, 2, 2)
		start, err := NewGaussians(rows, nil, benchDim, 1, -1, 1)
		if err != nil {
			b.Fatal(err)
		}
		rng := src.At(0, 0)
		for b.Loop() {
			for r := range benchChains {
				start.Draw(x[r*benchDim:(r+1)*benchDim], -1, rng.Rand)
			}
		}
	})
	b.Run("statistics", func(b *testing.B) {
		s.start = append(s.start[:0], x...)
		for b.Loop() {
			s.stats(nil, c)
		}
	})
}
