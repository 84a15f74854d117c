package score

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// area is the trapezoid area under the points of a ROC curve.
func area(points []ROCPoint) float64 {
	a := 0.0
	for i := 1; i < len(points); i++ {
		a += (points[i].FPR - points[i-1].FPR) * (points[i].TPR + points[i-1].TPR) / 2
	}
	return a
}

func TestROC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, ood := anyScores(1).Draw(t, "id"), anyScores(1).Draw(t, "ood")
		limit := rapid.IntRange(MinROCPoints, 60).Draw(t, "limit")
		r := NewRanking(id, ood)
		all, thin := r.ROCAll(), r.ROC(limit)
		if len(thin) > limit {
			t.Fatalf("%d points, limit %d", len(thin), limit)
		}
		if math.Abs(area(all)-r.AUROC().Value) > 1e-12 {
			t.Fatalf("area %v, AUROC %v", area(all), r.AUROC().Value)
		}
		if exact := r.ROC(1000); math.Abs(area(exact)-r.AUROC().Value) > 1e-12 {
			t.Fatalf("leaving out straight parts changed the area from %v to %v", r.AUROC().Value, area(exact))
		}
		first, last := thin[0], thin[len(thin)-1]
		if first.TP+first.FP != 0 || !math.IsNaN(first.Threshold) || last.TPR != 1 || last.FPR != 1 {
			t.Fatalf("ends %+v, %+v", first, last)
		}
		for _, p := range all[1:] {
			if c := r.At(p.Threshold); c.TP != p.TP || c.FP != p.FP {
				t.Fatalf("point %+v, cut %+v", p, c)
			}
		}
		for i, p := range thin {
			if i > 0 && (p.TP < thin[i-1].TP || p.FP < thin[i-1].FP) {
				t.Fatal("points out of order")
			}
		}
		fpr := r.FPRAtTPR(0.95, PositiveOOD)
		if !slices.ContainsFunc(thin, func(p ROCPoint) bool { return p.Threshold == fpr.Threshold && p.FPR == fpr.Value }) {
			t.Fatal("the point of FPR at 95 % TPR is missing")
		}
		accepted := r.FPRAtTPR(0.95, PositiveID)
		if !slices.ContainsFunc(thin, func(p ROCPoint) bool { return math.Abs(1-p.TPR-accepted.Value) < 1e-15 }) {
			t.Fatal("the point of FPR at 95 % TPR with ID positive is missing")
		}
	})
}

func TestROCThinnedStaysClose(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var id, ood Scores
	for range 20_000 {
		id.Add(r.NormFloat64())
		ood.Add(r.NormFloat64() + 1)
	}
	ranking := Rank(&id, &ood)
	points := ranking.ROC(200)
	if len(points) > 200 || len(points) < 100 {
		t.Errorf("%d points", len(points))
	}
	if diff := math.Abs(area(points) - ranking.AUROC().Value); diff > 2e-3 {
		t.Errorf("area is off by %v", diff)
	}
}

// bruteAURC is the mean risk over rows, each at the end of its tie block.
func bruteAURC(c []float64, k []bool) float64 {
	sum := 0.0
	for _, cut := range c {
		accepted, wrong := 0, 0
		for i := range c {
			if c[i] >= cut {
				accepted++
				if !k[i] {
					wrong++
				}
			}
		}
		sum += float64(wrong) / float64(accepted)
	}
	return sum / float64(len(c))
}

func TestRiskCoverage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 20), func(i int) float64 { return float64(i) / 20 }), 1, 60).Draw(t, "confidence")
		k := rapid.SliceOfN(rapid.Bool(), len(c), len(c)).Draw(t, "correct")
		var o, merged Outcomes
		var parts [2]Outcomes
		for i := range c {
			o.Add(c[i], k[i])
		}
		for _, i := range rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)).Perm(len(c)) {
			parts[i%2].Add(c[i], k[i])
		}
		merged.Merge(&parts[1])
		merged.Merge(&parts[0])
		if math.Abs(o.AURC().Value-bruteAURC(c, k)) > 1e-12 {
			t.Fatalf("AURC %v, want %v", o.AURC().Value, bruteAURC(c, k))
		}
		if o.EAURC().Value < -1e-15 {
			t.Fatalf("E-AURC %v", o.EAURC().Value)
		}
		figures := func(o *Outcomes) []Metric {
			return []Metric{o.AURC(), o.EAURC(), o.AUGRC(), o.Accuracy(), o.FailureAUROC(), o.EqualMassBins(4).ECE()}
		}
		if !sameBits(figures(&o), figures(&merged)) || !sameBits(o.EqualMassBins(4), merged.EqualMassBins(4)) {
			t.Fatal("figures depend on the order of rows")
		}
		points := o.RiskCoverage(6)
		if len(points) > 6 || points[len(points)-1].Coverage != 1 || points[0] != o.RiskCoverageAll()[0] {
			t.Fatalf("points %+v", points)
		}
		if n := o.EqualMassBins(4).N(); n != int64(len(c)) {
			t.Fatalf("%d rows in the bins", n)
		}
	})
}

func TestRiskCoveragePerfectAndEmpty(t *testing.T) {
	var o Outcomes
	for name, m := range map[string]Metric{
		"AURC": o.AURC(), "E-AURC": o.EAURC(), "AUGRC": o.AUGRC(), "accuracy": o.Accuracy(),
		"risk": o.RiskAtCoverage(0.5), "coverage": o.CoverageAtRisk(0.5), "failure": o.FailureAUROC(),
		"ece": o.EqualMassBins(15).ECE(), "mce": o.EqualMassBins(15).MCE(1),
	} {
		missing(t, name, m, ReasonNoRows)
	}
	if o.RiskCoverage(10) != nil {
		t.Error("a curve of no rows")
	}
	for i := range 10 {
		o.Add(float64(10-i), i < 7)
	}
	o.Add(math.NaN(), true)
	if m := o.EAURC(); m.Value != 0 || o.Dropped() != 1 {
		t.Errorf("E-AURC of a perfect order %v, dropped %d", m.Value, o.Dropped())
	}
}

func TestHistogram(t *testing.T) {
	id, ood := NewScores([]float64{0, 1, 2, 3, math.NaN()}), NewScores([]float64{4, 10, math.Inf(1), math.Inf(-1)})
	edges, err := SharedEdges(5, 0, id, ood)
	if err != nil || !slices.Equal(edges, []float64{0, 2, 4, 6, 8, 10}) {
		t.Fatalf("edges %v, %v", edges, err)
	}
	h := id.Histogram(edges)
	if !slices.Equal(h.Counts, []int64{2, 2, 0, 0, 0}) || h.Dropped != 1 || h.Under+h.Over != 0 {
		t.Errorf("ID %+v", h)
	}
	h = ood.Histogram(edges)
	if !slices.Equal(h.Counts, []int64{0, 0, 1, 0, 1}) || h.Under != 1 || h.Over != 1 {
		t.Errorf("OOD %+v", h)
	}
	if edges, _ = SharedEdges(2, 0.2, id, ood); !slices.Equal(edges, []float64{1, 2.5, 4}) {
		t.Errorf("edges without tails %v", edges)
	}
	if edges, _ = SharedEdges(2, 0, NewScores([]float64{3, 3})); !slices.Equal(edges, []float64{2.5, 3, 3.5}) {
		t.Errorf("edges of a constant %v", edges)
	}
	if edges, err = SharedEdges(2, 0, new(Scores)); edges != nil || err != nil {
		t.Errorf("edges of nothing %v, %v", edges, err)
	}
	if h := id.Histogram(nil); h.Counts != nil {
		t.Errorf("histogram without edges %+v", h)
	}
	if _, err = SharedEdges(0, 0, id); err == nil {
		t.Error("a histogram without bins is taken")
	}
}

func TestHistogramCountsEveryRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := NewScores(anyScores(0).Draw(t, "a")), NewScores(anyScores(0).Draw(t, "b"))
		tail := rapid.SampledFrom([]float64{0, 0.01, 0.3}).Draw(t, "tail")
		edges, err := SharedEdges(rapid.IntRange(1, 9).Draw(t, "bins"), tail, a, b)
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(edges); i++ {
			if !(edges[i] > edges[i-1]) {
				t.Fatalf("edges %v", edges)
			}
		}
		if edges == nil {
			return
		}
		for _, s := range []*Scores{a, b} {
			h := s.Histogram(edges)
			n := h.Under + h.Over
			for _, c := range h.Counts {
				n += c
			}
			if n != s.Len() {
				t.Fatalf("%d of %d rows counted", n, s.Len())
			}
		}
	})
}
