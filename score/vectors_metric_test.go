package score

import (
	"math"
	"testing"
)

func TestTVM1(t *testing.T) {
	s := make([]float64, 20)
	for i := range s {
		s[i] = float64(i)
	}
	r := NewRanking(s, s)
	value(t, "FPR@95 OOD", r.FPRAtTPR(0.95, PositiveOOD), 0.95)
	value(t, "FPR@95 ID", r.FPRAtTPR(0.95, PositiveID), 0.95)
	value(t, "AUROC", r.AUROC(), 0.5)
}

func TestTVM2(t *testing.T) {
	r := NewRanking(negated(9, 8, 7, 6, 5), negated(7, 4, 3, 2, 1))
	value(t, "AUROC", r.AUROC(), 0.90)
	value(t, "FPR@95 OOD", r.FPRAtTPR(0.95, PositiveOOD), 0.6)
	value(t, "FPR@95 ID", r.FPRAtTPR(0.95, PositiveID), 0.2)
	value(t, "AP out", r.AveragePrecision(PositiveOOD), 0.925)
	value(t, "AP in", r.AveragePrecision(PositiveID), 0.876667)
	m := r.MinDetectionError()
	value(t, "min detection error", m, 0.1)
	if m.Threshold != -4 {
		t.Errorf("threshold %v, want -4", m.Threshold)
	}
}

func TestTVM3(t *testing.T) {
	ood := make([]float64, 16)
	for i := range ood {
		ood[i] = float64(i + 1)
	}
	value(t, "FPR@95", NewRanking([]float64{0, 1}, ood).FPRAtTPR(0.95, PositiveOOD), 0.5)
}

func TestTVM4(t *testing.T) {
	r := NewRanking([]float64{1, 1, 1}, []float64{1})
	value(t, "AUROC", r.AUROC(), 0.5)
	value(t, "AP", r.AveragePrecision(PositiveOOD), 0.25)
	value(t, "prevalence", r.Prevalence(), 0.25)
}

func TestTVM5(t *testing.T) {
	id, ood := split([]float64{.1, .3, .6, .9, 1.3}, []int{0, 0, 0, 1, 0})
	r := NewRanking(id, ood)
	value(t, "AUROC", r.AUROC(), 0.75)
	value(t, "AP", r.AveragePrecision(PositiveOOD), 0.5)
	value(t, "FPR", r.FPRAtTPR(0.95, PositiveOOD), 0.25)
	value(t, "error at TPR95", r.DetectionError(0.95), 0.125)
}

func TestTVM6(t *testing.T) {
	var id, ood Scores
	for i, s := range []float32{20, 21, 22, 23} {
		if i == 0 {
			id.Add(float64(s))
		} else {
			ood.Add(float64(s))
		}
	}
	m := Rank(&id, &ood).AUROC()
	value(t, "AUROC", m, 1)
	if m.CIReason == "" || !math.IsNaN(m.CILow) {
		t.Errorf("AUROC of exactly 1 has the interval %+v", m)
	}
}

func TestTVM7(t *testing.T) {
	s, labels := []float64{-1, 0, 1}, []int{1, 0, 1}
	id, ood := split(s, labels)
	value(t, "AUROC at once", NewRanking(id, ood).AUROC(), 0.5)
	var oneID, oneOOD Scores
	for i, v := range s { // a batch a row
		part := NewScores([]float64{v})
		if labels[i] == 1 {
			oneOOD.Merge(part)
		} else {
			oneID.Merge(part)
		}
	}
	value(t, "AUROC one row at a time", Rank(&oneID, &oneOOD).AUROC(), 0.5)
}

func TestTVM8(t *testing.T) {
	r := NewRanking([]float64{1, 2, 3}, []float64{2, 4, 5})
	m := r.AUROC()
	value(t, "AUROC", m, 0.833333)
	se, reason := r.DeLong()
	near(t, "DeLong", se, 0.192450)
	if reason != "" || m.CIMethod != CIDeLongLogit || m.CIReason != "" {
		t.Errorf("interval %+v, reason %q", m, reason)
	}
	if math.Abs(m.CILow-0.2485) > 5e-5 || math.Abs(m.CIHigh-0.9869) > 5e-5 {
		t.Errorf("interval [%v, %v], want [0.2485, 0.9869]", m.CILow, m.CIHigh)
	}
}

func TestTVM9(t *testing.T) {
	r := NewRanking([]float64{0, .2, .4}, []float64{.6, 1})
	m, lo, hi := r.AUTC()
	value(t, "AUTC", m, 0.2)
	value(t, "AUROC", r.AUROC(), 1)
	if lo != 0 || hi != 1 {
		t.Errorf("range [%v, %v]", lo, hi)
	}
	m, _, _ = NewRanking([]float64{1, 1}, []float64{1}).AUTC()
	missing(t, "AUTC of equal scores", m, ReasonConstant)
	m, _, _ = NewRanking([]float64{1, 2}, []float64{math.Inf(1)}).AUTC()
	missing(t, "AUTC of infinite scores", m, ReasonInfinite)
}

// everyMetric lists all metrics of two groups.
func everyMetric(r *Ranking) map[string]Metric {
	autc, _, _ := r.AUTC()
	return map[string]Metric{
		"auroc": r.AUROC(), "ap_out": r.AveragePrecision(PositiveOOD), "ap_in": r.AveragePrecision(PositiveID),
		"fpr_ood": r.FPRAtTPR(0.95, PositiveOOD), "fpr_id": r.FPRAtTPR(0.95, PositiveID),
		"error": r.DetectionError(0.95), "min_error": r.MinDetectionError(), "autc": autc, "prevalence": r.Prevalence(),
	}
}

func TestTVM10(t *testing.T) {
	for name, m := range everyMetric(NewRanking([]float64{1, 2, 3}, nil)) {
		missing(t, name, m, ReasonOneClass)
	}
	for name, m := range everyMetric(NewRanking(nil, []float64{1, 2, 3})) {
		missing(t, name, m, ReasonOneClass)
	}
	for name, m := range everyMetric(NewRanking(nil, nil)) {
		missing(t, name, m, ReasonNoRows)
	}
	if r := NewRanking([]float64{1}, nil); r.ROCAll() != nil || r.ROC(10) != nil {
		t.Error("one class has a ROC curve")
	}
}

func TestTVM11(t *testing.T) {
	inf := math.Inf(1)
	r := NewRanking([]float64{1, math.NaN(), 2, 3}, []float64{2, 4, 5})
	if r.NDropped() != 1 || r.NID() != 3 || r.NOOD() != 3 {
		t.Errorf("counts %d %d %d", r.NID(), r.NOOD(), r.NDropped())
	}
	value(t, "AUROC of the rest", r.AUROC(), 0.833333)
	r = NewRanking([]float64{-inf, 0, 1}, []float64{2, inf, inf})
	value(t, "AUROC with infinities", r.AUROC(), 1)
	value(t, "FPR with infinities", r.FPRAtTPR(0.95, PositiveOOD), 0)
	r = NewRanking([]float64{0, inf}, []float64{1, inf})
	value(t, "AUROC with a tie at +Inf", r.AUROC(), 0.625)
	m := r.FPRAtTPR(0.95, PositiveID)
	value(t, "FPR when an ID row at +Inf must be accepted", m, 1)
	if !math.IsNaN(m.Threshold) {
		t.Errorf("threshold %v", m.Threshold)
	}
}

func TestCut(t *testing.T) {
	r := NewRanking([]float64{1, 2, 3}, []float64{2, 4, 5})
	c := r.At(2)
	if c.TP != 3 || c.FP != 2 || c.TN != 1 || c.FN != 0 {
		t.Errorf("cut %+v", c)
	}
	value(t, "TPR", c.TPR(), 1)
	value(t, "FPR", c.FPR(), 2.0/3)
	if m := c.FPR(); m.CIMethod != CIWilson || m.Threshold != 2 {
		t.Errorf("FPR %+v", m)
	}
	missing(t, "TPR without OOD rows", NewRanking([]float64{1}, nil).At(0).TPR(), ReasonNoRows)
	for _, bad := range []float64{0, 1.5, math.NaN()} {
		missing(t, "FPR", r.FPRAtTPR(bad, PositiveOOD), ReasonUnreachable)
		missing(t, "FPR", r.FPRAtTPR(bad, PositiveID), ReasonUnreachable)
		missing(t, "error", r.DetectionError(bad), ReasonUnreachable)
	}
	m := NewRanking([]float64{1}, []float64{0, 2}).AUROC()
	if value(t, "AUROC", m, 0.5); m.CIReason != ReasonTooFewRows {
		t.Errorf("AUROC of one ID row %+v", m)
	}
	m = NewRanking([]float64{1, 1}, []float64{1, 1}).AUROC()
	if value(t, "AUROC", m, 0.5); m.CIReason != ReasonZeroVariance {
		t.Errorf("AUROC of equal scores %+v", m)
	}
}
