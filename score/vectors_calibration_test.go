package score

import (
	"math"
	"testing"
)

func reliability(bins int, c []float64, k []int) *Reliability {
	r := NewReliability(bins)
	for i := range c {
		r.Add(c[i], k[i] == 1)
	}
	return r
}

func outcomes(c []float64, k []int) *Outcomes {
	o := new(Outcomes)
	for i := range c {
		o.Add(c[i], k[i] == 1)
	}
	return o
}

func TestTVC1(t *testing.T) {
	value(t, "ECE", reliability(10, []float64{.95, 1}, []int{1, 0}).Bins().ECE(), 0.475)
}

func TestTVC2(t *testing.T) {
	value(t, "ECE", reliability(2, []float64{.4, .5, .9}, []int{1, 0, 1}).Bins().ECE(), 0.066667)
}

func TestTVC3(t *testing.T) {
	c, k := []float64{.55, .62, .68, .95}, []int{1, 0, 1, 1}
	b := reliability(10, c, k).Bins()
	value(t, "ECE", b.ECE(), 0.2)
	value(t, "MCE", b.MCE(0), 0.45)
	value(t, "MCE of bins with two rows", b.MCE(2), 0.15)
	missing(t, "MCE of bins with three rows", b.MCE(3), ReasonTooFewRows)
	value(t, "RMSCE", b.RMSCE(), 0.25)
	value(t, "mean of bins", b.MeanOfBins(), 0.216667)
	value(t, "debiased L2", b.DebiasedL2(), 0)
	value(t, "debiased square", b.DebiasedL2Squared(), -0.11375)
	mass := outcomes(c, k).EqualMassBins(2)
	value(t, "equal mass ECE", mass.ECE(), 0.135)
	if len(mass) != 2 || mass[0].Lo != .55 || mass[0].Hi != .62 || mass[1].Count != 2 {
		t.Errorf("equal-mass bins %+v", mass)
	}
}

func TestTVC4(t *testing.T) {
	r := NewReliability(10)
	for _, correct := range []bool{true, true, true, false} {
		r.Add(.6, correct)
	}
	for _, correct := range []bool{false, false, true, true} {
		r.Add(.9, correct)
	}
	value(t, "L2", r.Bins().RMSCE(), 0.302076)
	value(t, "debiased L2", r.Bins().DebiasedL2(), 0.135401)
}

func TestTVC5(t *testing.T) {
	value(t, "ECE", reliability(2, []float64{.2, .9}, []int{1, 0}).Bins().ECE(), 0.85)
}

func TestTVC6(t *testing.T) {
	b := outcomes([]float64{.5, .6, .9, 1}, []int{1, 0, 0, 0}).EqualMassBins(2)
	value(t, "L2", b.RMSCE(), 0.672681)
}

func TestTVC7(t *testing.T) {
	c, k := []float64{1, 1, 1}, []int{0, 0, 0}
	value(t, "ECE", reliability(15, c, k).Bins().ECE(), 1)
	if b := outcomes(c, k).EqualMassBins(15); len(b) != 1 || b[0].Gap != 1 {
		t.Errorf("equal-mass bins of a constant confidence %+v", b)
	}
}

func TestTVC8(t *testing.T) {
	top, classwise := NewReliability(2), NewClasswise(2, 2)
	for _, p := range [][]float64{{.8, .2}, {.4, .6}} {
		top.Add(max(p[0], p[1]), p[0] > p[1])
		classwise.Add(p, 0)
	}
	value(t, "top-label", top.Bins().ECE(), 0.2)
	value(t, "classwise", classwise.ECE(), 0.4)
}

func TestTVC9(t *testing.T) {
	near(t, "Brier", (Brier([]float64{.6, .3, .1}, 0)+Brier([]float64{.2, .5, .3}, 2))/2, 0.52)
}

func TestTVC10(t *testing.T) {
	if got := NLL([]float32{200, 0}, 1); got != 200 {
		t.Errorf("NLL %v, want 200", got)
	}
	if got := NLL([]float32{0, float32(math.Inf(-1))}, 1); !math.IsInf(got, 1) {
		t.Errorf("NLL of an impossible label %v", got)
	}
	for _, label := range []int32{-1, 2} {
		if got := NLL([]float32{0, 1}, label); !math.IsNaN(got) {
			t.Errorf("NLL of label %d is %v", label, got)
		}
	}
}

func TestTVC11(t *testing.T) {
	if got := equalWidthBin(0.3, 10) + 1; got != 3 {
		t.Errorf("float64 0.3 in bin %d, want 3", got)
	}
	if got := equalWidthBin(float64(float32(0.3)), 10) + 1; got != 4 {
		t.Errorf("float32 0.3 in bin %d, want 4", got)
	}
	for _, n := range []int{1, 2, 7, 10, 15, 20, 25, 50, 100} {
		for i := 1; i <= n; i++ {
			edge := float64(i) / float64(n)
			if got := equalWidthBin(edge, n); got != i-1 {
				t.Errorf("edge %d/%d in bin %d, want %d", i, n, got, i-1)
			}
			if above := math.Nextafter(edge, 2); i < n && equalWidthBin(above, n) != i {
				t.Errorf("just above %d/%d in bin %d, want %d", i, n, equalWidthBin(above, n), i)
			}
		}
		if equalWidthBin(0, n) != 0 {
			t.Errorf("0 is not in the first of %d bins", n)
		}
	}
}

func TestTVC12(t *testing.T) {
	for gap, want := range map[float32]float32{16: 0.9999999, 17: 1} { // in float32 arithmetic
		if got := 1 / (1 + float32(math.Exp(-float64(gap)))); got != want {
			t.Errorf("float32 confidence %v at a gap of %v, want %v", got, gap, want)
		}
	}
	at := func(gap float32) float64 { return Describe([]float32{gap, 0}, nil).Confidence }
	if c := at(17); !(c < 1) || float32(at(18)) != 1 {
		t.Errorf("confidence %v at a gap of 17, %v at 18", c, at(18))
	}
	r := NewReliability(10)
	if !r.Add(1, true) || r.Bins()[9].Count != 1 {
		t.Error("a confidence of exactly 1 is not in the last bin")
	}
}

func TestTVS1(t *testing.T) {
	o := outcomes([]float64{.9, .8, .7, .6}, []int{1, 0, 1, 1})
	value(t, "AURC", o.AURC(), 0.270833)
	value(t, "E-AURC", o.EAURC(), 0.208333)
	value(t, "AUGRC", o.AUGRC(), 0.1875)
	value(t, "risk at coverage 0.5", o.RiskAtCoverage(0.5), 0.5)
	value(t, "risk at coverage 0.51", o.RiskAtCoverage(0.51), 1.0/3)
	value(t, "coverage at risk 0.3", o.CoverageAtRisk(0.3), 1)
	missing(t, "risk at coverage 0", o.RiskAtCoverage(0), ReasonUnreachable)
	missing(t, "coverage at risk -1", o.CoverageAtRisk(-1), ReasonUnreachable)
}

func TestTVS2(t *testing.T) {
	for _, k := range [][]int{{1, 0}, {0, 1}} {
		o := outcomes([]float64{.9, .9}, k)
		value(t, "AURC", o.AURC(), 0.5)
		if p := o.RiskCoverageAll(); len(p) != 1 || p[0].Coverage != 1 || p[0].Risk != 0.5 {
			t.Errorf("points %+v", p)
		}
	}
}

// margins is n rows of logits (2, 0), the first right of which have label 0.
func margins(n, right int) (logits []float32, labels []int32) {
	for i := range n {
		logits = append(logits, 2, 0)
		labels = append(labels, int32(min(1, i/right)))
	}
	return logits, labels
}

func fitMargins(t *testing.T, n, right int) TemperatureFit {
	t.Helper()
	logits, labels := margins(n, right)
	fit, err := FitTemperature(logits, 2, labels)
	if err != nil || fit.Reason != "" {
		t.Fatalf("%+v, %v", fit, err)
	}
	return fit
}

func TestTVR1(t *testing.T) {
	fit := fitMargins(t, 4, 3)
	if want := 2 / math.Log(3); math.Abs(fit.T-want) > 1e-14 || fit.HitBound {
		t.Errorf("fit %+v, want T = %v", fit, want)
	}
	near(t, "NLL before", fit.NLLBefore, 0.626928)
	near(t, "NLL after", fit.NLLAfter, 0.562335)
	logits, labels := margins(4, 3)
	for temperature, want := range map[float64][2]float64{1: {0.880797, 0.130797}, fit.T: {0.75, 0}} {
		c := NewCalibration(2, 15, temperature)
		for i, y := range labels {
			c.Add(logits[2*i:2*i+2], y)
		}
		value(t, "confidence", c.MeanConfidence(), want[0])
		value(t, "ECE", c.TopLabel.Bins().ECE(), want[1])
	}
}

func TestTVR2(t *testing.T) {
	if fit := fitMargins(t, 4, 4); fit.T != MinTemperature || !fit.HitBound {
		t.Errorf("fit %+v", fit)
	}
	// Margins that underflow at the cold bound are no different.
	fit, err := FitTemperature([]float32{50, 0, 40, 0}, 2, []int32{0, 0})
	if err != nil || fit.T != MinTemperature || !fit.HitBound || fit.NLLAfter != 0 {
		t.Errorf("fit %+v, %v", fit, err)
	}
}

func TestTVR3(t *testing.T) {
	if fit := fitMargins(t, 4, 1); fit.T != MaxTemperature || !fit.HitBound {
		t.Errorf("fit %+v", fit)
	}
}
