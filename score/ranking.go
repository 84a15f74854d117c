package score

import (
	"math"
	"sync"
)

// Positive says which group is the positive class of a metric.
type Positive string

const (
	PositiveOOD Positive = "ood" // flagged when s >= t
	PositiveID  Positive = "id"  // accepted when s < t
)

// Ranking compares the scores of ID and OOD rows, larger = more OOD. All its figures are functions of the two
// multisets: equal scores move together and neither order nor splits of the rows matter. It is read-only once made.
//
// Building it sorts both groups (O(n log n) at worst; a radix sort when there are many) and walks them once. It keeps
// 8 bytes a row, and takes as much again while it sorts. Up to 2^31 rows a group.
type Ranking struct {
	id, ood *Scores
	n, p    int64 // ID rows, OOD rows

	// From the walk. Ranks are doubled so that ties stay integers.
	rankSum  uint64  // sum over OOD of 2 (ID below) + (ID equal): AUROC = rankSum / 2np
	oodRanks uint128 // sum of the squares of the same terms
	idRanks  uint128 // sum over ID of (2 (OOD above) + (OOD equal))^2
	apOut    float64 // average precision, OOD positive
	apIn     float64 // average precision, ID positive
	minError uint64  // min over t of FN n + FP p
	minAt    float64 // the smallest t that reaches it
}

// NewRanking copies and compares two slices of scores.
func NewRanking(id, ood []float64) *Ranking { return Rank(NewScores(id), NewScores(ood)) }

// Rank compares two groups of scores, without a copy: it sorts them in place, and they must not be added to while
// the Ranking is in use. One group of ID scores serves any number of OOD groups.
func Rank(id, ood *Scores) *Ranking {
	var wg sync.WaitGroup
	wg.Go(id.Sort)
	if ood != id {
		ood.Sort()
	}
	wg.Wait()
	r := &Ranking{id: id, ood: ood, n: id.Len(), p: ood.Len()}
	if r.n > 0 && r.p > 0 {
		r.walk()
	}
	return r
}

func (r *Ranking) walk() {
	n, p := r.n, r.p
	var apOut, apIn Sum
	r.minError, r.minAt = uint64(n)*uint64(p), nan // flag nothing
	for b := range blocks(r.id.keys, r.ood.keys) {
		if b.bTie > 0 {
			x := uint64(2*b.aBelow + b.aTie)
			r.rankSum += uint64(b.bTie) * x
			r.oodRanks.addSquares(uint64(b.bTie), x)
			tp, fp := p-b.bBelow, n-b.aBelow // flagged at t = this value
			apOut.Add(float64(b.bTie) * (float64(tp) / float64(tp+fp)))
		}
		if b.aTie > 0 {
			above := p - b.bBelow - b.bTie
			r.idRanks.addSquares(uint64(b.aTie), uint64(2*above+b.bTie))
			tp, fp := b.aBelow+b.aTie, b.bBelow+b.bTie // accepted up to this value
			apIn.Add(float64(b.aTie) * (float64(tp) / float64(tp+fp)))
		}
		cost := uint64(b.bBelow)*uint64(n) + uint64(n-b.aBelow)*uint64(p)
		if cost < r.minError {
			r.minError, r.minAt = cost, keyValue(b.key)
		}
	}
	r.apOut, r.apIn = apOut.Mean(p), apIn.Mean(n)
}

// NID is the number of ID rows compared.
func (r *Ranking) NID() int64 { return r.n }

// NOOD is the number of OOD rows compared.
func (r *Ranking) NOOD() int64 { return r.p }

// NDropped is the number of rows of both groups left out because their score is NaN.
func (r *Ranking) NDropped() int64 { return r.id.dropped + r.ood.dropped }

// reason is why no metric of two groups exists, "" when they do.
func (r *Ranking) reason() string {
	switch {
	case r.n == 0 && r.p == 0:
		return ReasonNoRows
	case r.n == 0 || r.p == 0:
		return ReasonOneClass
	}
	return ""
}

// Prevalence is the share of OOD rows, which is the average precision of a detector that knows nothing.
func (r *Ranking) Prevalence() Metric {
	if reason := r.reason(); reason != "" {
		return undefined(reason)
	}
	return defined(float64(r.p) / float64(r.n+r.p))
}

// AUROC is P(s_ood > s_id) + P(s_ood = s_id)/2, by mid-ranks in integers, with DeLong's 95 % interval on the logit
// scale; see [Ranking.DeLong] for when there is none. It is the same with ID as the positive class.
func (r *Ranking) AUROC() Metric {
	if reason := r.reason(); reason != "" {
		return undefined(reason)
	}
	m := defined(r.auroc())
	se, reason := r.DeLong()
	if reason != "" {
		return m.withoutInterval(reason)
	}
	return m.withLogitInterval(se/(m.Value*(1-m.Value)), CIDeLongLogit)
}

func (r *Ranking) auroc() float64 { return float64(r.rankSum) / (2 * float64(r.n) * float64(r.p)) }

// AveragePrecision is the step-wise area under the precision-recall curve, sum over distinct scores of (gain in
// recall) x precision, without interpolation. Read it beside [Ranking.Prevalence], or 1 - Prevalence for ID. The
// interval is the binomial one on the logit scale (Boyd, Eng and Page 2013).
func (r *Ranking) AveragePrecision(positive Positive) Metric {
	if reason := r.reason(); reason != "" {
		return undefined(reason)
	}
	ap, rows := r.apOut, r.p
	if positive == PositiveID {
		ap, rows = r.apIn, r.n
	}
	return defined(ap).withLogitInterval(1/math.Sqrt(float64(rows)*ap*(1-ap)), CIBinomialLogit)
}

// FPRAtTPR is the false positive rate at the strictest threshold whose true positive rate is at least tpr (in (0,1],
// read to six decimals), without interpolation. For PositiveOOD that is the share of ID rows flagged when at least tpr
// of the OOD rows are flagged; for PositiveID the share of OOD rows accepted when at least tpr of the ID rows are
// accepted, which is what most papers after ODIN (Liang et al. 2018) call FPR95. In both cases Threshold flags s >= t;
// it is NaN when everything must be accepted. A tpr outside (0,1] is ReasonUnreachable.
func (r *Ranking) FPRAtTPR(tpr float64, positive Positive) Metric {
	if reason := r.reason(); reason != "" {
		return undefined(reason)
	}
	if positive == PositiveID {
		t, err := r.id.Threshold(tpr)
		switch {
		case err != nil:
			return undefined(ReasonUnreachable)
		case t.Reason != "": // an ID row at +Inf must be accepted, and everything with it
			return proportion(r.p, r.p, CIWilsonAtCut)
		}
		return proportion(r.ood.Below(t.Value), r.p, CIWilsonAtCut).at(t.Value)
	}
	t, ok := r.cutForTPR(tpr)
	if !ok {
		return undefined(ReasonUnreachable)
	}
	return proportion(r.id.Flagged(t), r.n, CIWilsonAtCut).at(t)
}

// cutForTPR is the largest t that flags at least a share tpr of the OOD rows.
func (r *Ranking) cutForTPR(tpr float64) (t float64, ok bool) {
	k, err := rowsOf(tpr, r.p)
	if err != nil {
		return nan, false
	}
	return keyValue(r.ood.keys[r.p-k]), true
}

// DetectionError is (FNR + FPR)/2 at the threshold of FPRAtTPR(tpr, PositiveOOD): both groups weigh the same, however
// many rows they have.
func (r *Ranking) DetectionError(tpr float64) Metric {
	if reason := r.reason(); reason != "" {
		return undefined(reason)
	}
	t, ok := r.cutForTPR(tpr)
	if !ok {
		return undefined(ReasonUnreachable)
	}
	c := r.At(t)
	return defined(r.halfError(uint64(c.FN)*uint64(r.n) + uint64(c.FP)*uint64(r.p))).at(t)
}

// MinDetectionError is the smallest (FNR + FPR)/2 over all thresholds (Liang et al. 2018), found in integers. Threshold
// is the smallest that reaches it, NaN when flagging nothing is best.
func (r *Ranking) MinDetectionError() Metric {
	if reason := r.reason(); reason != "" {
		return undefined(reason)
	}
	return defined(r.halfError(r.minError)).at(r.minAt)
}

func (r *Ranking) halfError(cost uint64) float64 {
	return float64(cost) / (2 * float64(r.n) * float64(r.p))
}

// Cut counts what one threshold does: flagged when s >= Threshold, OOD positive.
type Cut struct {
	Threshold      float64
	TP, FP, TN, FN int64
}

// TPR is the share of OOD rows flagged, with a Wilson interval; ReasonNoRows without OOD rows.
func (c Cut) TPR() Metric { return proportion(c.TP, c.TP+c.FN, CIWilson).at(c.Threshold) }

// FPR is the share of ID rows flagged, with a Wilson interval; ReasonNoRows without ID rows.
func (c Cut) FPR() Metric { return proportion(c.FP, c.FP+c.TN, CIWilson).at(c.Threshold) }

// At applies a threshold, for instance one that [Scores.Threshold] chose on other rows.
func (r *Ranking) At(threshold float64) Cut {
	tp, fp := r.ood.Flagged(threshold), r.id.Flagged(threshold)
	return Cut{Threshold: threshold, TP: tp, FP: fp, TN: r.n - fp, FN: r.p - tp}
}
