package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/jempipe/jempipe/outputs"
)

// oodSection shows how well each detector tells each OOD set from the in-distribution one; nil without OOD tables.
func oodSection(r Report) *Section {
	if len(r.OODMetrics) == 0 && len(r.ROC) == 0 && len(r.Histograms) == 0 {
		return nil
	}
	s := &Section{ID: "ood", Title: "Out-of-distribution detection", Short: "OOD",
		Lead: "OOD is the positive class; a larger score means more OOD, for every detector."}
	for _, id := range distinct(r.OODMetrics, func(m outputs.OODMetric) string { return m.IDDataset }) {
		rows := keep(r.OODMetrics, func(m outputs.OODMetric) bool { return m.IDDataset == id })
		s.Blocks = append(s.Blocks,
			Block{Title: "AUROC against " + id, Table: aurocMatrix(rows)},
			Block{Title: "False positive rate at 95 % true positive rate, against " + id, Table: fprMatrix(rows)})
	}
	if t := thresholdTable(r.Thresholds, r.OODMetrics); t != nil {
		s.Blocks = append(s.Blocks, Block{Title: "Thresholds", Table: t})
	}
	detectors := distinct(r.Histograms, func(h outputs.Histogram) string { return h.Detector })
	if i := slices.Index(detectors, "energy"); i > 0 {
		detectors = append([]string{"energy"}, slices.Delete(detectors, i, i+1)...)
	}
	for i, d := range detectors {
		if figures := histogramFigures(r, d); len(figures) > 0 {
			s.Blocks = append(s.Blocks, Block{Title: "Histograms: " + readable(d), Figures: figures, Switch: slug("log", d), Folded: i > 0})
		}
	}
	if figures := rocFigures(r); len(figures) > 0 {
		s.Blocks = append(s.Blocks, Block{Title: "ROC curves", Figures: figures})
	}
	return s
}

// find is the first metric of a detector and an OOD set, with this positive class or none.
func find(rows []outputs.OODMetric, detector, set, metric, positive string) *outputs.OODMetric {
	for i, m := range rows {
		if m.Detector == detector && m.OODDataset == set && m.Metric == metric &&
			(positive == "" || m.PositiveClass == nil || *m.PositiveClass == positive) {
			return &rows[i]
		}
	}
	return nil
}

func detectorsAndSets(rows []outputs.OODMetric) (detectors, sets []string) {
	return distinct(rows, func(m outputs.OODMetric) string { return m.Detector }),
		distinct(rows, func(m outputs.OODMetric) string { return m.OODDataset })
}

// aurocMatrix is detector by OOD set. The best of each column is marked, and those whose interval meets the best's.
func aurocMatrix(rows []outputs.OODMetric) *Table {
	detectors, sets := detectorsAndSets(rows)
	t := &Table{Source: "ood_metrics", Class: "matrix", Head: []Column{{Name: "Detector", Text: true}},
		Note: "0.5 is chance, 1 is perfect; below it the 95 % interval. ★ best on this set; ≈ its interval meets the best one's, so the difference may be chance."}
	for _, set := range sets {
		t.Head = append(t.Head, Column{Name: set, Note: sizes(rows, set)})
	}
	if len(sets) > 1 {
		t.Head = append(t.Head, Column{Name: "Mean", Note: "mean of the sets, each with equal weight"})
	}
	best := bestOf(rows, sets)
	for _, d := range detectors {
		line := []Cell{{Text: heading(d)}}
		sum, n := 0.0, 0
		for _, set := range sets {
			m := find(rows, d, set, outputs.MetricAUROC, "")
			line = append(line, aurocCell(m, best[set]))
			if m != nil && m.Value != nil {
				sum, n = sum+*m.Value, n+1
			}
		}
		if len(sets) > 1 {
			var mean *float64
			if n == len(sets) {
				mean = outputs.Defined(sum / float64(n))
			}
			line = append(line, cell(mean, new("not defined on every set"), three))
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// sizes says how many rows a column of the matrix rests on.
func sizes(rows []outputs.OODMetric, set string) string {
	for _, m := range rows {
		if m.OODDataset == set {
			return fmt.Sprintf("%s ID rows (%s left out), %s OOD rows (%s left out)",
				count(m.NID), count(m.NDroppedID), count(m.NOOD), count(m.NDroppedOOD))
		}
	}
	return ""
}

// bestOf is a metric with the largest AUROC of each set; several may share it.
func bestOf(rows []outputs.OODMetric, sets []string) map[string]*outputs.OODMetric {
	best := make(map[string]*outputs.OODMetric, len(sets))
	for i, m := range rows {
		if m.Metric == outputs.MetricAUROC && m.Value != nil && (best[m.OODDataset] == nil || *m.Value > *best[m.OODDataset].Value) {
			best[m.OODDataset] = &rows[i]
		}
	}
	return best
}

func aurocCell(m, best *outputs.OODMetric) Cell {
	if m == nil {
		return Cell{Text: dash, Note: "not computed"}
	}
	c := cell(m.Value, m.Reason, three)
	if m.Value == nil {
		return c
	}
	c.Sub = interval(m.CILow, m.CIHigh, three)
	c.Heat = heat(2*math.Abs(*m.Value-0.5), *m.Value >= 0.5)
	switch {
	case *m.Value == *best.Value:
		c.Mark = "best"
	case m.CIHigh != nil && best.CILow != nil && *m.CIHigh >= *best.CILow:
		c.Mark = "same"
	}
	return c
}

// heat is the background of a cell: the share of a colour, that of good or of bad news.
func heat(share float64, good bool) string {
	colour := "var(--heat)"
	if !good {
		colour = "var(--cold)"
	}
	return fmt.Sprintf("background:color-mix(in srgb,%s %s%%,transparent)", colour, strconv.Itoa(int(math.Round(60*min(max(share, 0), 1)))))
}

// fprMatrix has both conventions of FPR@95 side by side.
func fprMatrix(rows []outputs.OODMetric) *Table {
	detectors, sets := detectorsAndSets(rows)
	t := &Table{Source: "ood_metrics", Class: "matrix", Head: []Column{{Name: "Detector", Text: true}},
		Note: "OOD+: share of ID rows flagged when 95 % of OOD is caught. ID+: share of OOD rows accepted when 95 % of ID is accepted. Papers use either; lower is better."}
	for _, set := range sets {
		t.Head = append(t.Head, Column{Name: "OOD+", Group: set, Note: sizes(rows, set)}, Column{Name: "ID+", Group: set, Note: sizes(rows, set)})
	}
	for _, d := range detectors {
		line := []Cell{{Text: heading(d)}}
		for _, set := range sets {
			for _, positive := range []string{outputs.PositiveOOD, outputs.PositiveID} {
				m := find(rows, d, set, outputs.MetricFPR95, positive)
				if m == nil {
					line = append(line, Cell{Text: dash, Note: "not computed"})
					continue
				}
				c := cell(m.Value, m.Reason, percent)
				c.Sub = interval(m.CILow, m.CIHigh, percent)
				line = append(line, c)
			}
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// thresholdTable has the threshold of each detector and, where it was measured, the share of each OOD set that it flags.
func thresholdTable(rows []outputs.Threshold, metrics []outputs.OODMetric) *Table {
	if len(rows) == 0 {
		return nil
	}
	t := &Table{Source: "thresholds", Head: []Column{{Name: "Detector", Text: true}, {Name: "Chosen on", Text: true},
		{Name: "ID to accept", Note: "share of in-distribution rows that was to stay unflagged"}, {Name: "ID accepted"}, {Name: "Threshold"}, {Name: "Rows"}},
		Note: "The threshold is the smallest score that leaves at least the wanted share of in-distribution rows unflagged. A row is flagged when its score ≥ threshold: column flag_NAME of predictions."}
	metrics = keep(metrics, func(m outputs.OODMetric) bool { return m.Metric == outputs.MetricTPRAtThreshold })
	_, sets := detectorsAndSets(metrics)
	for _, set := range sets {
		t.Head = append(t.Head, Column{Name: set, Group: "OOD flagged", Note: sizes(metrics, set)})
	}
	for _, th := range rows {
		line := []Cell{{Text: heading(th.Detector)}, {Text: th.IDDataset}, {Text: percent(th.AcceptanceTarget)},
			cell(th.Acceptance, th.Reason, percent), cell(th.Threshold, th.Reason, significant), {Text: count(th.N)}}
		for _, set := range sets {
			line = append(line, flagged(find(metrics, th.Detector, set, outputs.MetricTPRAtThreshold, "")))
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// flagged is the share of an OOD set that a threshold flags.
func flagged(m *outputs.OODMetric) Cell {
	if m == nil {
		return Cell{Text: dash, Note: "not computed"}
	}
	c := cell(m.Value, m.Reason, percent)
	c.Sub = interval(m.CILow, m.CIHigh, percent)
	return c
}

// histogramFigures has one chart per OOD set for a detector.
func histogramFigures(r Report, detector string) []Figure {
	rows := keep(r.Histograms, func(h outputs.Histogram) bool { return h.Detector == detector })
	var figures []Figure
	for _, id := range distinct(rows, func(h outputs.Histogram) string { return h.IDDataset }) {
		threshold := math.NaN()
		for _, t := range r.Thresholds {
			if t.Detector == detector && t.Threshold != nil { // chosen on this set or, better, on another one of the distribution
				threshold = *t.Threshold
				break
			}
		}
		of := keep(rows, func(h outputs.Histogram) bool { return h.IDDataset == id })
		for _, set := range distinct(of, func(h outputs.Histogram) string { return h.Dataset }) {
			ood := collect(of, set)
			if set == id || len(ood.count) == 0 {
				continue
			}
			ref := collect(of, id)
			if len(ref.count) == 0 {
				continue
			}
			figures = append(figures, overlay(slug("hist", id, set, detector), id+" and "+set, axisName(detector), ref, ood, threshold))
		}
	}
	return figures
}

func axisName(detector string) string {
	if detector == "energy" {
		return "Energy, nats (low = likely)"
	}
	return "Score: " + readable(detector)
}

// collect gathers the bins of one data set.
func collect(rows []outputs.Histogram, set string) histogram {
	h := histogram{name: set}
	for _, b := range rows {
		if b.Dataset == set {
			h.lo, h.hi, h.count = append(h.lo, b.Lo), append(h.hi, b.Hi), append(h.count, b.Count)
		}
	}
	return h
}

// rocFigures has one chart per pair of data sets with a curve per detector.
func rocFigures(r Report) []Figure {
	var figures []Figure
	type pair struct{ id, ood string }
	var pairs []pair
	for _, p := range r.ROC {
		if q := (pair{p.IDDataset, p.OODDataset}); !slices.Contains(pairs, q) {
			pairs = append(pairs, q)
		}
	}
	detectors := distinct(r.ROC, func(p outputs.ROC) string { return p.Detector })
	for _, q := range pairs {
		chart := lineChart{name: slug("roc", q.id, q.ood), title: q.id + " and " + q.ood, square: true, exact: true,
			xLabel: "ID rows flagged (FPR)", yLabel: "OOD rows flagged (TPR)", y: &scale{lo: 0, hi: 1}}
		metrics := keep(r.OODMetrics, func(m outputs.OODMetric) bool { return m.IDDataset == q.id })
		var aurocs []string
		for i, d := range detectors {
			curve := thin(keep(r.ROC, func(p outputs.ROC) bool { return p.IDDataset == q.id && p.OODDataset == q.ood && p.Detector == d }))
			if len(curve) == 0 {
				continue
			}
			chart.add(readable(d), seriesClass(i), curve)
			auroc := ""
			if m := find(metrics, d, q.ood, outputs.MetricAUROC, ""); m != nil {
				auroc = three(value(m.Value))
			}
			aurocs = append(aurocs, auroc)
		}
		chart.lines = append(chart.lines, series{name: "chance", class: "chance", x: []float64{0, 1}, y: []float64{0, 1}})
		fig := chart.draw("roc", "Dots: the first point with TPR ≥ 95 %.")
		for i, auroc := range aurocs {
			fig.Legend[i].Value = auroc
		}
		figures = append(figures, fig)
	}
	return figures
}

// add draws one detector's curve and marks where 95 % of OOD is caught.
func (l *lineChart) add(name, class string, curve []outputs.ROC) {
	s := series{name: name, class: class}
	marked := false
	for _, p := range curve {
		s.x, s.y = append(s.x, p.FPR), append(s.y, p.TPR)
		if !marked && p.TPR >= 0.95 {
			marked = true
			l.points = append(l.points, point{p.FPR, p.TPR, class,
				fmt.Sprintf("%s: TPR %s at FPR %s, threshold %s", name, percent(p.TPR), percent(p.FPR), significant(value(p.Threshold)))})
		}
	}
	l.lines = append(l.lines, s)
}
