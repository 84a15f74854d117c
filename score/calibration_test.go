package score

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// rowsOfLogits draws n rows of k logits with labels that follow the softmax at the given temperature.
func rowsOfLogits(n, k int, temperature float64, seed uint64) (logits []float32, labels []int32) {
	r := rand.New(rand.NewPCG(seed, 7))
	p := make([]float64, k)
	for range n {
		z := make([]float32, k)
		for i := range z {
			z[i] = float32(3 * r.NormFloat64())
		}
		DescribeAt(z, temperature, p)
		u, y := r.Float64(), 0
		for y < k-1 && u > p[y] {
			u -= p[y]
			y++
		}
		logits = append(logits, z...)
		labels = append(labels, int32(y))
	}
	return logits, labels
}

func TestTemperatureIsFound(t *testing.T) {
	logits, labels := rowsOfLogits(20_000, 5, 2.5, 1)
	fit, err := FitTemperature(logits, 5, labels)
	if err != nil || fit.HitBound || math.Abs(fit.T-2.5) > 0.1 {
		t.Fatalf("fit %+v, %v", fit, err)
	}
	if fit.Evaluations > 20 {
		t.Errorf("%d passes", fit.Evaluations)
	}
	threads := runtime.GOMAXPROCS(1)
	alone, _ := FitTemperature(logits, 5, labels)
	runtime.GOMAXPROCS(threads)
	if !sameBits(alone, fit) {
		t.Errorf("one thread %+v, %d threads %+v", alone, threads, fit)
	}
	at := func(temperature float64) float64 {
		var sum Sum
		for i, y := range labels {
			sum.Add(NLLAt(logits[5*i:5*i+5], y, temperature))
		}
		return sum.Mean(int64(len(labels)))
	}
	if best := at(fit.T); best != fit.NLLAfter || best > at(fit.T*1.001) || best > at(fit.T*0.999) || fit.NLLBefore != at(1) {
		t.Errorf("NLL %v at T, %v above, %v below", best, at(fit.T*1.001), at(fit.T*0.999))
	}
}

func TestTemperatureIgnoresOrder(t *testing.T) {
	const k = 3
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		logits, labels := rowsOfLogits(n, k, 1.5, rapid.Uint64().Draw(t, "rows"))
		a, err := FitTemperature(logits, k, labels)
		if err != nil {
			t.Fatal(err)
		}
		var l2 []float32
		var y2 []int32
		for _, i := range rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)).Perm(n) {
			l2 = append(l2, logits[i*k:i*k+k]...)
			y2 = append(y2, labels[i])
		}
		b, err := FitTemperature(l2, k, y2)
		if err != nil || !sameBits(a, b) {
			t.Fatalf("%+v and %+v, %v", a, b, err)
		}
		if !(a.T >= MinTemperature && a.T <= MaxTemperature && a.NLLAfter <= a.NLLBefore+1e-12) {
			t.Fatalf("%+v", a)
		}
	})
}

func TestTemperatureDegenerate(t *testing.T) {
	inf, nan32 := float32(math.Inf(1)), float32(math.NaN())
	fit, err := FitTemperature([]float32{1, 1, 0, 0}, 2, []int32{0, 1})
	if err != nil || fit.T != 1 || fit.Reason != ReasonFlat || fit.HitBound {
		t.Errorf("equal logits: %+v, %v", fit, err)
	}
	fit, err = FitTemperature([]float32{nan32, 0, inf, 0, -inf, 0, 1, 0, 1, 0}, 2, []int32{0, 0, 0, 2, -1})
	if err != nil || fit.Reason != ReasonNoRows || fit.Dropped != 5 || !math.IsNaN(fit.T) {
		t.Errorf("unusable rows: %+v, %v", fit, err)
	}
	fit, err = FitTemperature([]float32{2, 0, -inf, 2, 0, 1, 0, 3, 1}, 3, []int32{0, 1, 2})
	if err != nil || fit.N != 3 || math.IsNaN(fit.T) || math.IsNaN(fit.NLLAfter) {
		t.Errorf("a -Inf logit beside the label: %+v, %v", fit, err)
	}
	if _, err = FitTemperature([]float32{1, 2, 3}, 2, []int32{0}); err == nil {
		t.Error("a wrong shape is taken")
	}
}

// figures lists everything that a Calibration says.
func figures(c *Calibration) []any {
	return []any{
		c.Accuracy(), c.NLL(), c.Brier(), c.MeanConfidence(), c.TopLabel.Bins(), c.TopLabel.Bins().ECE(),
		c.Classwise.ECE(), c.PerClass(), c.Outcomes.AURC(), c.Outcomes.EqualMassBins(5), c.Dropped(), c.N(),
	}
}

func TestCalibrationMergesInAnyOrder(t *testing.T) {
	const k = 4
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 50).Draw(t, "n")
		logits, labels := rowsOfLogits(n, k, 1, rapid.Uint64().Draw(t, "rows"))
		if n > 3 {
			logits[0], labels[1], logits[2*k] = float32(math.NaN()), k, float32(math.Inf(-1))
		}
		whole, merged := NewCalibration(k, 10, 1.3), NewCalibration(k, 10, 1.3)
		parts := []*Calibration{NewCalibration(k, 10, 1.3), NewCalibration(k, 10, 1.3), NewCalibration(k, 10, 1.3)}
		for i := range n {
			whole.Add(logits[i*k:i*k+k], labels[i])
		}
		for _, i := range rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)).Perm(n) {
			parts[i%3].Add(logits[i*k:i*k+k], labels[i])
		}
		for _, i := range []int{2, 0, 1} {
			if err := merged.Merge(parts[i]); err != nil {
				t.Fatal(err)
			}
		}
		want, got := figures(whole), figures(merged)
		for i := range want {
			if !sameBits(want[i], got[i]) {
				t.Fatalf("%+v and %+v", want[i], got[i])
			}
		}
	})
}

func TestCalibrationTable(t *testing.T) {
	c := NewCalibration(3, 10, 1)
	rows := []struct {
		z      []float32
		label  int32
		reason string
	}{
		{[]float32{2, 0, 0}, 0, ""},
		{[]float32{0, 2, 0}, 0, ""},
		{[]float32{0, 2, 0}, 1, ""},
		{[]float32{0, float32(math.NaN()), 0}, 1, ReasonNaNLogits},
		{[]float32{0, 2, 0}, 3, ReasonBadLabel},
		{[]float32{0, 2, 0}, -1, ReasonBadLabel},
		{[]float32{0, 2}, 1, ReasonLogitCount},
	}
	for _, r := range rows {
		if got := c.Add(r.z, r.label); got != r.reason {
			t.Errorf("row %v, label %d: reason %q, want %q", r.z, r.label, got, r.reason)
		}
	}
	if c.N() != 3 || c.NDropped() != 4 || len(c.Dropped()) != 3 || c.Dropped()[0] != (Drop{ReasonBadLabel, 2}) {
		t.Errorf("%d rows, dropped %v", c.N(), c.Dropped())
	}
	value(t, "accuracy", c.Accuracy(), 2.0/3)
	p := math.Exp(2) / (math.Exp(2) + 2)
	q := 1 / (math.Exp(2) + 2)
	value(t, "mean confidence", c.MeanConfidence(), p)
	value(t, "NLL", c.NLL(), -(2*math.Log(p)+math.Log(q))/3)
	value(t, "Brier", c.Brier(), (2*((1-p)*(1-p)+2*q*q)+(1-q)*(1-q)+p*p+q*q)/3)
	per := c.PerClass()
	value(t, "recall", per[0].Accuracy, 0.5)
	value(t, "precision", per[1].Precision, 0.5)
	missing(t, "recall of an absent class", per[2].Accuracy, ReasonNoRows)
	missing(t, "confidence of an absent class", per[2].MeanConf, ReasonNoRows)
	value(t, "ECE of an absent class", per[2].ECE, q)
	value(t, "classwise", c.Classwise.ECE(), (per[0].ECE.Value+per[1].ECE.Value+q)/3)
	if c.Confusion.Count(0, 1) != 1 || c.Confusion.Predicted(1) != 2 || c.Confusion.Labelled(0) != 2 {
		t.Error("confusion matrix")
	}
	for _, m := range []Metric{c.NLL(), c.Brier(), c.Accuracy()} {
		if !(m.CILow <= m.Value && m.Value <= m.CIHigh) || m.CIMethod == "" {
			t.Errorf("interval %+v", m)
		}
	}
}

func TestCalibrationEmptyAndMismatched(t *testing.T) {
	c := NewCalibration(3, 0, 1)
	for name, m := range map[string]Metric{
		"accuracy": c.Accuracy(), "NLL": c.NLL(), "Brier": c.Brier(), "confidence": c.MeanConfidence(),
		"ECE": c.TopLabel.Bins().ECE(), "classwise": c.Classwise.ECE(), "RMSCE": c.TopLabel.Bins().RMSCE(),
		"debiased": c.TopLabel.Bins().DebiasedL2(), "mean of bins": c.TopLabel.Bins().MeanOfBins(),
	} {
		missing(t, name, m, ReasonNoRows)
	}
	bins := c.TopLabel.Bins()
	if len(bins) != DefaultBins || bins[0].Lo != 0 || bins[14].Hi != 1 || !math.IsNaN(bins[3].MeanConf) || !math.IsNaN(bins[3].Accuracy) {
		t.Errorf("empty bins %+v", bins)
	}
	for _, o := range []*Calibration{NewCalibration(2, 0, 1), NewCalibration(3, 10, 1), NewCalibration(3, 0, 2)} {
		if c.Merge(o) == nil {
			t.Error("merged what does not fit")
		}
	}
	r := NewReliability(5)
	for _, bad := range []float64{math.NaN(), -0.1, 1.1, math.Inf(1)} {
		if r.Add(bad, true) {
			t.Errorf("confidence %v is taken", bad)
		}
	}
	if r.Dropped() != 4 || r.Bins().N() != 0 {
		t.Errorf("%d dropped", r.Dropped())
	}
	w := NewClasswise(2, 5)
	for _, bad := range []struct {
		p []float64
		y int32
	}{{[]float64{1}, 0}, {[]float64{.5, .5}, 2}, {[]float64{.5, math.NaN()}, 0}, {[]float64{.5, 1.5}, 0}} {
		if w.Add(bad.p, bad.y) {
			t.Errorf("row %+v is taken", bad)
		}
	}
	if w.Dropped() != 4 {
		t.Errorf("%d dropped", w.Dropped())
	}
}
