package langevin

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/keyed"
)

// gaussian is the density N(mean_y, I): log p(x, y) = -|x - mean_y|^2 / 2.
type gaussian struct {
	dim   int
	means []float64 // by class; unconditional: means[0]
	calls int
}

func (g *gaussian) Gradient(_ context.Context, x []float32, classes []int32, logp []float64, grad []float32) error {
	g.calls++
	for r := range logp {
		mean := g.means[0]
		if classes != nil {
			mean = g.means[classes[r]]
		}
		logp[r] = 0
		for j := r * g.dim; j < (r+1)*g.dim; j++ {
			d := float64(x[j]) - mean
			logp[r] -= d * d / 2
			grad[j] = float32(-d)
		}
	}
	return nil
}

func chains(n, dim int) Chains {
	c := Chains{X: make([]float32, n*dim), Keys: make([]uint64, n)}
	for i := range c.Keys {
		c.Keys[i] = uint64(i)
	}
	return c
}

// x <- (1-a) x + a m + s N(0,1) is an AR(1) process: mean m, variance s^2 / (1 - (1-a)^2).
func TestStationaryDistributionOfAGaussian(t *testing.T) {
	const n, dim, a, s, mean = 400, 8, 0.2, 0.5, 1.5
	sampler, err := NewSampler(Rule{Steps: 100, StepSize: a, NoiseStd: s}, dim, keyed.New(1, "t"), &gaussian{dim: dim, means: []float64{mean}})
	if err != nil {
		t.Fatal(err)
	}
	c := chains(n, dim)
	if _, err := sampler.Run(context.Background(), c, nil); err != nil {
		t.Fatal(err)
	}
	var sum, sq float64
	for _, v := range c.X {
		sum += float64(v)
		sq += float64(v) * float64(v)
	}
	m := sum / float64(n*dim)
	v := sq/float64(n*dim) - m*m
	want := s * s / (1 - (1-a)*(1-a))
	if math.Abs(m-mean) > 0.05 || math.Abs(v-want) > 0.05*want {
		t.Errorf("mean %.3f and variance %.3f, want %.3f and %.3f", m, v, mean, want)
	}
}

// How chains are shared out, and in which batch a chain runs, must not change a bit of it.
func TestChainsDependOnTheirKeysAlone(t *testing.T) {
	const n, dim = 7, 3
	cfg := Rule{Steps: 5, StepSize: 0.3, NoiseStd: 0.1, GradClip: 0.5, Clamp: true, Range: []float64{-1, 1}}
	run := func(densities int, visit Visit) []float32 {
		ds := make([]Density, densities)
		for i := range ds {
			ds[i] = &gaussian{dim: dim, means: []float64{0.4}}
		}
		s, err := NewSampler(cfg, dim, keyed.New(9, "t"), ds...)
		if err != nil {
			t.Fatal(err)
		}
		c := chains(n, dim)
		if _, err := s.Run(context.Background(), c, visit); err != nil {
			t.Fatal(err)
		}
		return c.X
	}
	want := run(1, nil)
	for _, d := range []int{2, 3, 7, 9} {
		if got := run(d, nil); !slices.Equal(got, want) {
			t.Errorf("%d densities: %v, one density: %v", d, got, want)
		}
	}
	if got := run(2, func(int, []float32, []float64) error { return nil }); !slices.Equal(got, want) {
		t.Errorf("visited: %v, not visited: %v", got, want)
	}
	s, err := NewSampler(cfg, dim, keyed.New(9, "t"), &gaussian{dim: dim, means: []float64{0.4}})
	if err != nil {
		t.Fatal(err)
	}
	alone := Chains{X: make([]float32, dim), Keys: []uint64{5}}
	if _, err := s.Run(context.Background(), alone, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(alone.X, want[5*dim:6*dim]) {
		t.Errorf("chain 5 alone: %v, among others: %v", alone.X, want[5*dim:6*dim])
	}
}

// One step by hand: the rule itself.
func TestOneStep(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Rule
		x    float32
		want float32
	}{
		{"plain", Rule{Steps: 1, StepSize: 0.5}, 0, 1},
		{"clipped gradient", Rule{Steps: 1, StepSize: 0.5, GradClip: 0.1}, 0, 0.05},
		{"clamped state", Rule{Steps: 1, StepSize: 0.5, Clamp: true, Range: []float64{-1, 0.75}}, 0, 0.75},
	} {
		s, err := NewSampler(c.cfg, 1, keyed.New(1, "t"), &gaussian{dim: 1, means: []float64{2}})
		if err != nil {
			t.Fatal(err)
		}
		ch := Chains{X: []float32{c.x}, Keys: []uint64{0}}
		st, err := s.Run(context.Background(), ch, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ch.X[0] != c.want {
			t.Errorf("%s: x = %v, want %v", c.name, ch.X[0], c.want)
		}
		if math.Abs(st.Displacement-float64(c.want-c.x)) > 1e-6 || st.MaxAbsLogP != 2 {
			t.Errorf("%s: stats %+v", c.name, st)
		}
	}
}

func TestVisitSeesEveryStateWithItsLogDensity(t *testing.T) {
	d := &gaussian{dim: 1, means: []float64{1, -1}}
	s, err := NewSampler(Rule{Steps: 3, StepSize: 0.5}, 1, keyed.New(1, "t"), d)
	if err != nil {
		t.Fatal(err)
	}
	c := Chains{X: []float32{0, 0}, Keys: []uint64{0, 1}, Classes: []int32{0, 1}}
	want := []float32{0, 0.5, 0.75, 0.875}
	var steps []int
	st, err := s.Run(context.Background(), c, func(step int, x []float32, logp []float64) error {
		steps = append(steps, step)
		if x[0] != want[step] || x[1] != -want[step] {
			t.Errorf("step %d: x = %v, want +-%v", step, x, want[step])
		}
		if d := 1 - float64(want[step]); math.Abs(logp[0]+d*d/2) > 1e-7 || logp[0] != logp[1] {
			t.Errorf("step %d: log density %v of %v", step, logp, x)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if st.MaxAbsLogP != 0.5 {
		t.Errorf("largest |log density| %v, want that of the start, 0.5", st.MaxAbsLogP)
	}
	if !slices.Equal(steps, []int{0, 1, 2, 3}) || d.calls != 4 {
		t.Errorf("visited %v with %d evaluations", steps, d.calls)
	}
}

type diverging struct{ gaussian }

func (d *diverging) Gradient(ctx context.Context, x []float32, c []int32, logp []float64, grad []float32) error {
	err := d.gaussian.Gradient(ctx, x, c, logp, grad)
	if d.calls == 3 {
		grad[4] = float32(math.NaN())
	}
	return err
}

func TestNonFiniteGradientNamesChainAndStep(t *testing.T) {
	s, err := NewSampler(Rule{Steps: 5, StepSize: 0.1}, 2, keyed.New(1, "t"), &diverging{gaussian{dim: 2, means: []float64{0}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Run(context.Background(), chains(3, 2), nil)
	if err == nil || !strings.Contains(err.Error(), "chain 2") || !strings.Contains(err.Error(), "step 2") {
		t.Errorf("error %v, want chain 2 and step 2 named", err)
	}
}

func TestCancelledRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s, err := NewSampler(Rule{Steps: 5, StepSize: 0.1}, 2, keyed.New(1, "t"), &gaussian{dim: 2, means: []float64{0}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(ctx, chains(3, 2), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestBuffer(t *testing.T) {
	src := keyed.New(4, "buffer")
	b, err := NewBuffer(BufferConfig{Size: 1000, Shape: []int{2}, Classes: 10, Start: Uniform{-1, 1}}, src)
	if err != nil {
		t.Fatal(err)
	}
	if m := b.Mean(); math.Abs(m) > 0.05 {
		t.Errorf("mean of a fresh buffer %.3f, want about 0", m)
	}
	n := 500
	x, slots, classes := make([]float32, 2*n), make([]int, n), make([]int32, n)
	for i := range classes {
		classes[i] = int32(i % 10)
	}
	restarted := b.Draw(x, slots, classes, 0.05, src.At(0, 1).Rand)
	if restarted < 10 || restarted > 45 {
		t.Errorf("%d of %d chains restarted, want about 25", restarted, n)
	}
	for r, s := range slots {
		if s/100 != r%10 {
			t.Fatalf("row %d of class %d drew slot %d", r, r%10, s)
		}
	}
	for i := range x {
		x[i] = 3
	}
	b.Put(slots, x)
	for _, s := range slots {
		if b.X[2*s] != 3 || b.X[2*s+1] != 3 {
			t.Fatalf("slot %d was not written", s)
		}
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	g := &gaussian{dim: 1, means: []float64{0}}
	if _, err := NewSampler(Rule{Steps: 0}, 1, keyed.New(1, ""), g); err == nil {
		t.Error("0 steps were accepted")
	}
	if _, err := NewSampler(Rule{Steps: 1, Clamp: true}, 1, keyed.New(1, ""), g); err == nil {
		t.Error("an empty clamp range was accepted")
	}
	s, err := NewSampler(Rule{Steps: 1}, 1, keyed.New(1, ""), g)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(context.Background(), Chains{X: make([]float32, 3), Keys: make([]uint64, 2)}, nil); err == nil {
		t.Error("3 values for 2 chains were accepted")
	}
}
