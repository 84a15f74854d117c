package score

import "iter"

// ROCPoint is one threshold of the receiver operating characteristic, OOD positive: rows with s >= Threshold are
// flagged. Precision, for a precision-recall curve, is TP/(TP+FP).
type ROCPoint struct {
	Threshold float64 // NaN at the end where nothing is flagged
	FPR, TPR  float64
	FP, TP    int64
}

// MinROCPoints is the smallest limit that [Ranking.ROC] keeps to.
const MinROCPoints = 8

// ROCAll has one point for each distinct score, from nothing flagged (0,0) to everything flagged (1,1). It is nil
// when a group is empty.
func (r *Ranking) ROCAll() []ROCPoint {
	var out []ROCPoint
	for v := range r.rocVertices() {
		out = append(out, v.ROCPoint)
	}
	return out
}

// ROC has at most limit points, from (0,0) to (1,1). Both ends and the points of FPR at 95 % TPR, under either positive
// class, are always there. Points on a straight line between their neighbours go first, which changes nothing; if too
// many are left, each of a row of equal buckets of TPR + FPR keeps its points of largest and smallest TPR - FPR.
// A limit below MinROCPoints counts as MinROCPoints. It is nil when a group is empty.
func (r *Ranking) ROC(limit int) []ROCPoint {
	limit = max(limit, MinROCPoints)
	var exact []ROCPoint
	fits := true
	for v := range r.rocVertices() {
		if !v.corner && !v.keep {
			continue
		}
		if len(exact) == limit {
			fits = false
			break
		}
		exact = append(exact, v.ROCPoint)
	}
	if fits {
		return exact
	}
	t := newThinner[ROCPoint](limit, 4)
	for v := range r.rocVertices() {
		switch {
		case v.keep:
			t.keep(v.ROCPoint)
		case v.corner:
			t.add((v.TPR+v.FPR)/2, v.TPR-v.FPR, v.ROCPoint)
		}
	}
	return t.points()
}

type rocVertex struct {
	ROCPoint
	corner bool // the curve changes direction here
	keep   bool // an end, or a point that a table quotes
}

// rocVertices walks the curve from (0,0) to (1,1).
func (r *Ranking) rocVertices() iter.Seq[rocVertex] {
	return func(yield func(rocVertex) bool) {
		if r.reason() != "" {
			return
		}
		oodCut, _ := r.cutForTPR(0.95)
		idCut, _ := r.id.Threshold(0.95)
		last := rocVertex{ROCPoint: ROCPoint{Threshold: nan}, keep: true}
		lastDX, lastDY := int64(0), int64(0)
		for b := range blocksDown(r.id.keys, r.ood.keys) {
			dx, dy := b.aTie, b.bTie
			last.corner = !parallel(lastDX, lastDY, dx, dy)
			// The ID cut lies just above a score that it accepts: its point is the last one before that score.
			value := keyValue(b.key)
			last.keep = last.keep || idCut.Reason == "" && value < idCut.Value && last.Threshold >= idCut.Value
			if !yield(last) {
				return
			}
			fp, tp := last.FP+dx, last.TP+dy
			last = rocVertex{
				ROCPoint: ROCPoint{
					Threshold: value,
					FP:        fp, TP: tp,
					FPR: float64(fp) / float64(r.n), TPR: float64(tp) / float64(r.p),
				},
				keep: value == oodCut,
			}
			lastDX, lastDY = dx, dy
		}
		last.keep, last.corner = true, true
		yield(last)
	}
}

// parallel says whether two steps, each with non-negative parts, point the same way.
func parallel(x1, y1, x2, y2 int64) bool {
	return (x1 != 0 || y1 != 0) && x1*y2 == x2*y1
}
