package score

import "iter"

// RiskPoint is one point of the risk-coverage curve: the rows with confidence >= Threshold are accepted.
type RiskPoint struct {
	Threshold float64
	Accepted  int64
	Errors    int64   // wrong rows among the accepted
	Coverage  float64 // Accepted / N, in (0,1]
	Risk      float64 // Errors / Accepted, the selective risk
}

func (o *Outcomes) riskPoints() iter.Seq[RiskPoint] {
	return func(yield func(RiskPoint) bool) {
		o.sort()
		n := float64(o.N())
		var accepted, errors int64
		for b := range blocksDown(o.right.keys, o.wrong.keys) {
			accepted += b.aTie + b.bTie
			errors += b.bTie
			p := RiskPoint{
				Threshold: keyValue(b.key),
				Accepted:  accepted,
				Errors:    errors,
				Coverage:  float64(accepted) / n,
				Risk:      float64(errors) / float64(accepted),
			}
			if !yield(p) {
				return
			}
		}
	}
}

// meanOverRows is the mean over the rows of f at the end of their tie block.
func (o *Outcomes) meanOverRows(f func(RiskPoint) float64) Metric {
	if o.N() == 0 {
		return undefined(ReasonNoRows)
	}
	var sum Sum
	last := int64(0)
	for p := range o.riskPoints() {
		sum.Add(float64(p.Accepted-last) * f(p))
		last = p.Accepted
	}
	return defined(sum.Mean(o.N()))
}

// AURC is the area under the risk-coverage curve: the mean over the rows of the selective risk at their coverage
// (Geifman and El-Yaniv 2017). Rows of equal confidence all get the risk at the end of their block.
func (o *Outcomes) AURC() Metric {
	return o.meanOverRows(func(p RiskPoint) float64 { return p.Risk })
}

// EAURC is AURC less that of the perfect order, right rows first (Geifman, Uziel and El-Yaniv 2019). The perfect order
// is summed over the rows; the closed form r + (1-r) ln(1-r) is only its limit.
func (o *Outcomes) EAURC() Metric {
	m := o.AURC()
	if m.Defined {
		var perfect Sum
		for i := int64(1); i <= o.Errors(); i++ {
			perfect.Add(float64(i) / float64(o.right.Len()+i))
		}
		m.Value -= perfect.Mean(o.N())
	}
	return m
}

// AUGRC is the area under the generalised risk-coverage curve: the mean over the rows of (wrong rows accepted)/N at
// their coverage (Traub et al. 2024). Ties are as in AURC.
func (o *Outcomes) AUGRC() Metric {
	n := float64(o.N())
	return o.meanOverRows(func(p RiskPoint) float64 { return float64(p.Errors) / n })
}

// RiskAtCoverage is the selective risk when at least a share coverage (in (0,1], read to six decimals) of the rows is
// accepted, whole tie blocks. ReasonUnreachable for a coverage outside (0,1].
func (o *Outcomes) RiskAtCoverage(coverage float64) Metric {
	if o.N() == 0 {
		return undefined(ReasonNoRows)
	}
	want, err := rowsOf(coverage, o.N())
	if err != nil {
		return undefined(ReasonUnreachable)
	}
	for p := range o.riskPoints() {
		if p.Accepted >= want {
			return proportion(p.Errors, p.Accepted, CIWilsonAtCut).at(p.Threshold)
		}
	}
	return undefined(ReasonUnreachable)
}

// CoverageAtRisk is the largest coverage whose selective risk is at most risk; ReasonUnreachable when none is.
func (o *Outcomes) CoverageAtRisk(risk float64) Metric {
	if o.N() == 0 {
		return undefined(ReasonNoRows)
	}
	best := undefined(ReasonUnreachable)
	for p := range o.riskPoints() {
		if p.Risk <= risk {
			best = defined(p.Coverage).at(p.Threshold)
		}
	}
	return best
}

// RiskCoverageAll has one point for each distinct confidence, by rising coverage.
func (o *Outcomes) RiskCoverageAll() []RiskPoint {
	var out []RiskPoint
	for p := range o.riskPoints() {
		out = append(out, p)
	}
	return out
}

// RiskCoverage has at most limit points (at least 4): all when there are no more, else the first and the last and, of
// each of a row of equal buckets of coverage, those of the smallest and the largest risk.
func (o *Outcomes) RiskCoverage(limit int) []RiskPoint {
	limit = max(limit, 4)
	count, n := 0, o.N()
	for range o.riskPoints() {
		count++
	}
	if count <= limit {
		return o.RiskCoverageAll()
	}
	t := newThinner[RiskPoint](limit, 2)
	first := true
	for p := range o.riskPoints() {
		if first || p.Accepted == n {
			t.keep(p)
		} else {
			t.add(p.Coverage, p.Risk, p)
		}
		first = false
	}
	return t.points()
}
