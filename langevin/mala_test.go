package langevin

import (
	"context"
	"math"
	"testing"

	"github.com/jempipe/jempipe/internal/keyed"
)

// moments runs n chains of 2 elements on N(mean, 1) from 0 and gives mean and variance of the elements at the end.
func moments(t *testing.T, r Rule, n int, mean float64) (m, v float64, st Stats) {
	t.Helper()
	const dim = 2
	s, err := NewSampler(r, dim, keyed.New(6, "t"), &gaussian{dim: dim, means: []float64{mean}}, &gaussian{dim: dim, means: []float64{mean}})
	if err != nil {
		t.Fatal(err)
	}
	c := chains(n, dim)
	if st, err = s.Run(context.Background(), c, nil); err != nil {
		t.Fatal(err)
	}
	for _, x := range c.X {
		m += float64(x) / float64(n*dim)
	}
	for _, x := range c.X {
		v += (float64(x) - m) * (float64(x) - m) / float64(n*dim)
	}
	return m, v, st
}

// truncated gives mean and variance of N(mean, T) cut to [lo, hi], by the trapezium rule.
func truncated(mean, temperature, lo, hi float64) (m, v float64) {
	const n = 20000
	var w, s1, s2 float64
	for i := range n + 1 {
		x := lo + (hi-lo)*float64(i)/n
		p := math.Exp(-(x - mean) * (x - mean) / (2 * temperature))
		if i == 0 || i == n {
			p /= 2
		}
		w, s1, s2 = w+p, s1+p*x, s2+p*x*x
	}
	m = s1 / w
	return m, s2/w - m*m
}

// The target of mala is N(mean, T), cut to the range where there is one, whatever step and clipping. With n independent
// elements the standard error of the mean is sqrt(v/n), and that of the variance at most sqrt(2/n) v for the normal and
// less for the cut one.
func TestMALADrawsFromTheDensity(t *testing.T) {
	const n, dim, mean = 4000, 2, 0.7
	for name, r := range map[string]Rule{
		"temperature 1":  {StepSize: 0.8, Temperature: 1},
		"temperature 3":  {StepSize: 0.5, Temperature: 3},
		"small step":     {StepSize: 0.2, Temperature: 0.5},
		"clipped":        {StepSize: 0.8, Temperature: 1, GradClip: 0.4},
		"clamped":        {StepSize: 0.3, Temperature: 1, Clamp: true, Range: []float64{-1, 1.5}},
		"clamped uneven": {StepSize: 0.3, Temperature: 1, GradClip: 0.5, Clamp: true, Range: []float64{-0.5, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			r.Steps, r.Correct = 150, MALA
			wantMean, want := mean, r.Temperature
			if r.Clamp {
				wantMean, want = truncated(mean, r.Temperature, r.Range[0], r.Range[1])
			}
			m, v, st := moments(t, r, n, mean)
			if tol := 4 * math.Sqrt(want/(n*dim)); math.Abs(m-wantMean) > tol {
				t.Errorf("mean %.4f, want %.4f within %.4f", m, wantMean, tol)
			}
			if tol := 4 * math.Sqrt(2/float64(n*dim)) * want; math.Abs(v-want) > tol {
				t.Errorf("variance %.4f, want %.4f within %.4f", v, want, tol)
			}
			if !(st.Acceptance > 0.2 && st.Acceptance < 0.99) {
				t.Errorf("acceptance %.3f: the test shows little", st.Acceptance)
			}
		})
	}
}

// Without correction the variance at step a and temperature T is T/(1 - a/2), see TestStationaryDistributionOfAGaussian.
func TestUncorrectedChainsAreBiasedAtTheSameStep(t *testing.T) {
	const n, dim, a, temperature = 4000, 2, 0.8, 1.0
	_, v, st := moments(t, Rule{Steps: 150, StepSize: a, Temperature: temperature}, n, 0.7)
	want := temperature / (1 - a/2)
	if tol := 4 * math.Sqrt(2/float64(n*dim)) * want; math.Abs(v-want) > tol || math.Abs(v-temperature) < tol {
		t.Errorf("variance %.4f, want %.4f within %.4f", v, want, tol)
	}
	if !math.IsNaN(st.Acceptance) {
		t.Errorf("acceptance %v without mala, want none", st.Acceptance)
	}
}

// At small steps nearly everything is accepted, at large ones hardly anything.
func TestAcceptanceFallsWithTheStep(t *testing.T) {
	last := 1.0
	for _, step := range []float64{0.01, 0.5, 1, 2} {
		_, _, st := moments(t, Rule{Steps: 40, StepSize: step, Temperature: 1, Correct: MALA}, 300, 0)
		if st.Acceptance > last {
			t.Errorf("acceptance %.3f at step %g, %.3f at a smaller one", st.Acceptance, step, last)
		}
		last = st.Acceptance
		if step == 0.01 && last < 0.99 {
			t.Errorf("acceptance %.3f at step 0.01, want nearly 1", last)
		}
	}
}

// Proposals that leave the range are refused, and the model is not asked about states outside it.
type watched struct {
	gaussian
	lo, hi float32
}

func (w *watched) Gradient(ctx context.Context, x []float32, c []int32, logp []float64, grad []float32) error {
	for _, v := range x {
		w.lo, w.hi = min(w.lo, v), max(w.hi, v)
	}
	return w.gaussian.Gradient(ctx, x, c, logp, grad)
}

func TestMALAStaysInTheRange(t *testing.T) {
	d := &watched{gaussian: gaussian{dim: 3, means: []float64{5}}}
	s, err := NewSampler(Rule{Steps: 50, StepSize: 0.005, Temperature: 1, Correct: MALA, Clamp: true, Range: []float64{-0.2, 0.3}}, 3, keyed.New(1, "t"), d)
	if err != nil {
		t.Fatal(err)
	}
	c := chains(200, 3)
	st, err := s.Run(context.Background(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d.lo < -0.2 || d.hi > 0.3 {
		t.Errorf("states between %v and %v were evaluated, the range is [-0.2, 0.3]", d.lo, d.hi)
	}
	if st.Acceptance == 0 || st.Displacement == 0 || st.AtBounds != 0 {
		t.Errorf("stats %+v: some proposals must be accepted, none lies on a bound", st)
	}
}
