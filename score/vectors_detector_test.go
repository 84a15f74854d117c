package score

import (
	"fmt"
	"math"
	"testing"
)

func detect(t *testing.T, name string, s Sample, o Options) float64 {
	t.Helper()
	d, ok := FindDetector(name)
	if !ok {
		t.Fatalf("no detector %s", name)
	}
	v, reason := d.Score(&s, o)
	if reason != "" || math.IsNaN(v) {
		t.Fatalf("%s: %v, reason %q", name, v, reason)
	}
	return v
}

func TestTVD1(t *testing.T) {
	z := []float32{2, 1, 0}
	for name, want := range map[string]float64{
		"msp": -0.665241, "max_logit": -2, "energy": -2.407606, "entropy": 0.832396, "margin": -0.420512,
		"gen": 2.483843, "kl_uniform": -0.308994,
	} {
		near(t, name, detect(t, name, NewSample(z), Options{}), want)
	}
	near(t, "energy_t", detect(t, "energy_t", NewSample(z), Options{Temperature: 2}), -3.360539)
	near(t, "energy_t at 1", detect(t, "energy_t", NewSample(z), Options{}), -2.407606)
	near(t, "Energy", Energy(z), -2.407606)
}

func TestTVD2(t *testing.T) {
	z := []float32{1000, 999}
	e := detect(t, "energy", NewSample(z), Options{})
	near(t, "energy", e, -1000.313262)
	if got := fmt.Sprintf("%.4f", float32(e)); got != "-1000.3132" {
		t.Errorf("float32 energy %s", got)
	}
	near(t, "energy_t", detect(t, "energy_t", NewSample(z), Options{Temperature: 2}), -1000.948154)
}

func TestTVD3(t *testing.T) {
	h := detect(t, "entropy", NewSample([]float32{200, 0}), Options{})
	if want := 201 * math.Exp(-200); math.Abs(h-want) > 1e-12*want {
		t.Errorf("entropy %v, want %v", h, want)
	}
	if h < 2.75e-85 || h > 2.85e-85 || float32(h) != 0 {
		t.Errorf("entropy %v, want 2.8e-85", h)
	}
	if h := Describe([]float32{3, float32(math.Inf(-1))}, nil).Entropy; h != 0 {
		t.Errorf("entropy with a -Inf logit %v, want 0", h)
	}
}

func TestTVD16(t *testing.T) {
	// f(x) = x, so that the gradient of logsumexp is the softmax of x.
	p := Softmax([]float32{1, 0}, nil)
	near(t, "gradient", p[0], 0.731059)
	near(t, "gradient", p[1], 0.268941)
	s := NewSample(nil)
	s.ScoreNorm = L2Norm([]float32{float32(p[0]), float32(p[1])})
	near(t, "approximate_mass", detect(t, "approximate_mass", s, Options{}), 0.778958)
}

func TestDetectorsUndefined(t *testing.T) {
	inf, nan32 := float32(math.Inf(1)), float32(math.NaN())
	cases := []struct {
		logits []float32
		want   string // reason of every softmax detector
	}{
		{nil, ReasonNoLogits},
		{[]float32{1, nan32}, ReasonNaNLogits},
		{[]float32{nan32, 1}, ReasonNaNLogits},
		{[]float32{1, inf}, ReasonInfLogits},
		{[]float32{-inf, -inf}, ReasonAllNegInf},
	}
	for _, c := range cases {
		for _, d := range Detectors() {
			if d.Name == "" || d.Summary == "" || d.Formula == "" || d.Source == "" || d.Needs == "" {
				t.Errorf("detector %q is not described", d.Name)
			}
			s := NewSample(c.logits)
			v, reason := d.Score(&s, Options{})
			want, limit := c.want, math.IsInf(v, 0)
			switch d.Name {
			case "approximate_mass":
				want = ReasonNoScoreNorm
			case "energy", "energy_t", "max_logit":
				if c.want == ReasonInfLogits || c.want == ReasonAllNegInf {
					if !limit || reason != "" || (v > 0) != (c.want == ReasonAllNegInf) {
						t.Errorf("%s of %v: %v, %q", d.Name, c.logits, v, reason)
					}
					continue
				}
			}
			if !math.IsNaN(v) || reason != want {
				t.Errorf("%s of %v: %v, reason %q, want %q", d.Name, c.logits, v, reason, want)
			}
		}
	}
	for _, name := range []string{"energy_t", "msp_t"} {
		d, _ := FindDetector(name)
		s := NewSample([]float32{1, 2})
		for _, temperature := range []float64{-1, math.NaN(), math.Inf(1)} {
			if v, reason := d.Score(&s, Options{Temperature: temperature}); !math.IsNaN(v) || reason != ReasonBadTemperature {
				t.Errorf("%s at %v: %v, %q", name, temperature, v, reason)
			}
		}
	}
	d, _ := FindDetector("margin")
	s := NewSample([]float32{1})
	if _, reason := d.Score(&s, Options{}); reason != ReasonOneLogit {
		t.Errorf("margin of one class: %q", reason)
	}
	if _, ok := FindDetector("nothing"); ok {
		t.Error("found a detector that does not exist")
	}
}

// TestDetectorDirection: a flat row looks more OOD than a peaked one to every detector of logits.
func TestDetectorDirection(t *testing.T) {
	for _, d := range Detectors() {
		if d.Needs != NeedsLogits {
			continue
		}
		peaked, flat := NewSample([]float32{9, -1, -2}), NewSample([]float32{0.2, 0.1, -0.1})
		a, _ := d.Score(&peaked, Options{})
		b, _ := d.Score(&flat, Options{})
		if !(a < b) {
			t.Errorf("%s: peaked %v, flat %v", d.Name, a, b)
		}
	}
}

// TestSampleReuse: a Sample that serves a loop forgets the row before.
func TestSampleReuse(t *testing.T) {
	d, _ := FindDetector("energy")
	s := NewSample([]float32{1, 2})
	d.Score(&s, Options{})
	s.Reset([]float32{2, 1, 0}, 3)
	near(t, "energy after Reset", detect(t, "energy", s, Options{}), -2.407606)
	near(t, "approximate_mass after Reset", detect(t, "approximate_mass", s, Options{}), 3)
	s.SetRow(Row{LSE: 5})
	near(t, "energy of a given Row", detect(t, "energy", s, Options{}), -5)
	s.Reset(nil, -1)
	mass, _ := FindDetector("approximate_mass")
	if v, reason := mass.Score(&s, Options{}); !math.IsNaN(v) || reason != ReasonBadScoreNorm {
		t.Errorf("a negative norm gives %v, %q", v, reason)
	}
}
