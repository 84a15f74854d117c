package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/jempipe/jempipe/outputs"
)

// calibrationSection shows how far confidence can be trusted, per data set, before and after recalibration; nil without
// calibration tables.
func calibrationSection(r Report) *Section {
	if len(r.CalibrationMetrics) == 0 && len(r.CalibrationBins) == 0 {
		return nil
	}
	s := &Section{ID: "calibration", Title: "Calibration",
		Lead: "How often the model is right when it says it is sure. A bar below the diagonal means over-confidence; empty bins are blank."}
	if t := recalibrationTable(r.Recalibration); t != nil {
		s.Blocks = append(s.Blocks, Block{Title: "Fitted map", Table: t})
	}
	sets := distinct(r.CalibrationMetrics, func(m outputs.CalibrationMetric) string { return m.Dataset })
	if len(sets) == 0 {
		sets = distinct(r.CalibrationBins, func(b outputs.CalibrationBin) string { return b.Dataset })
	}
	for _, set := range sets {
		title := set
		if fittedOn(r, set) {
			title += " (the map was fitted on these rows)"
		}
		block := Block{Title: title}
		for _, m := range []string{outputs.MapUncalibrated, outputs.MapTemperature} {
			bins := keep(r.CalibrationBins, func(b outputs.CalibrationBin) bool {
				return b.Dataset == set && b.Map == m && b.Scheme == "equal_width"
			})
			if len(bins) > 0 {
				block.Figures = append(block.Figures, reliability(slug("cal", set, m), mapTitle(m), bins))
			}
		}
		if fig, ok := riskCoverage(r, set); ok {
			block.Figures = append(block.Figures, fig)
		}
		block.Table = metricsTable(r, set)
		s.Blocks = append(s.Blocks, block)
	}
	return s
}

func fittedOn(r Report, set string) bool {
	return len(keep(r.Recalibration, func(f outputs.Recalibration) bool { return f.FitDataset == set })) > 0
}

func mapTitle(m string) string {
	if m == outputs.MapTemperature {
		return "After temperature scaling"
	}
	return "Before: the model as it is"
}

func recalibrationTable(rows []outputs.Recalibration) *Table {
	if len(rows) == 0 {
		return nil
	}
	t := &Table{Source: "recalibration", Head: []Column{
		{Name: "Map", Text: true}, {Name: "Parameter", Text: true}, {Name: "Value"}, {Name: "Fitted on", Text: true}, {Name: "Rows"},
		{Name: "NLL before", Note: "mean negative log likelihood in nats on the rows of the fit"}, {Name: "NLL after"}, {Name: "At a bound", Text: true},
	}}
	for _, f := range rows {
		bound := Cell{Text: "no"}
		if f.HitBound {
			bound = Cell{Text: "yes", Mark: "bad", Note: "the search ended at a bound: this is no optimum"}
		}
		t.Rows = append(t.Rows, []Cell{{Text: heading(f.Map)}, {Text: readable(f.Parameter)}, cell(f.Value, f.Reason, four),
			{Text: f.FitDataset}, {Text: count(f.N)}, cell(f.NLLBefore, nil, four), cell(f.NLLAfter, nil, four), bound})
	}
	return t
}

// metricKey is what tells one calibration metric from another.
type metricKey struct{ metric, scheme, norm, scope string }

func keyOf(m outputs.CalibrationMetric) metricKey {
	return metricKey{m.Metric, words(m.Scheme), words(m.Norm), m.Scope}
}

// metricsTable compares the maps of one data set metric by metric; nil without metrics.
func metricsTable(r Report, set string) *Table {
	rows := keep(r.CalibrationMetrics, func(m outputs.CalibrationMetric) bool { return m.Dataset == set })
	if len(rows) == 0 {
		return nil
	}
	maps := distinct(rows, func(m outputs.CalibrationMetric) string { return m.Map })
	t := &Table{Source: "calibration_metrics", Head: []Column{{Name: "Metric", Text: true}}}
	for _, m := range maps {
		t.Head = append(t.Head, Column{Name: heading(m)})
	}
	if len(maps) == 2 {
		t.Head = append(t.Head, Column{Name: "Change"})
	}
	found := make(map[metricKey]map[string]outputs.CalibrationMetric)
	var order []metricKey
	for _, m := range rows {
		k := keyOf(m)
		if found[k] == nil {
			found[k] = make(map[string]outputs.CalibrationMetric)
			order = append(order, k)
		}
		found[k][m.Map] = m
	}
	for _, k := range order {
		line := []Cell{{Text: metricName(k.metric), Sub: k.describe(found[k][maps[0]])}}
		for _, name := range maps {
			m, ok := found[k][name]
			if !ok {
				line = append(line, Cell{Text: dash, Note: "not computed for this map"})
				continue
			}
			c := cell(m.Value, m.Reason, four)
			c.Sub = interval(m.CILow, m.CIHigh, four)
			line = append(line, c)
		}
		if len(maps) == 2 {
			line = append(line, change(k.metric, found[k][maps[0]].Value, found[k][maps[1]].Value))
		}
		t.Rows = append(t.Rows, line)
	}
	first := rows[0]
	t.Note = fmt.Sprintf("%s rows; %s left out for want of a label or a valid output.", count(first.N), count(first.NDropped))
	return t
}

// describe is the convention of a binned metric.
func (k metricKey) describe(m outputs.CalibrationMetric) string {
	var parts []string
	if k.scheme != "" {
		bins := readable(k.scheme) + " bins"
		if m.NBins != nil {
			bins = fmt.Sprintf("%d %s", *m.NBins, bins)
		}
		parts = append(parts, bins)
	}
	if k.norm != "" {
		parts = append(parts, strings.ToUpper(k.norm[:1])+k.norm[1:])
	}
	if k.scope == "classwise" {
		parts = append(parts, "classwise")
	}
	return strings.Join(parts, ", ")
}

// metricNames spells out what the tables abbreviate.
var metricNames = map[string]string{
	"accuracy": "Accuracy", "mean_confidence": "Mean confidence", "nll": "NLL, nats", "brier": "Brier score",
	"ece": "ECE", "mce": "MCE", "rmsce": "RMSCE", "ace_mean_bins": "Mean gap of bins", "ece_equal_mass": "ECE",
	"aurc": "AURC", "eaurc": "E-AURC", "augrc": "AUGRC", "debiased_l2": "Debiased L2 error", "debiased_l2_squared": "Debiased L2 error, squared", "classwise_ece": "ECE",
	"failure_auroc": "AUROC of errors",
}

func metricName(metric string) string {
	if name := metricNames[metric]; name != "" {
		return name
	}
	return heading(metric)
}

// change compares two values and says which way is good; accuracy and failure AUROC are better when larger, mean
// confidence is neither.
func change(metric string, before, after *float64) Cell {
	d := value(after) - value(before)
	if math.IsNaN(d) {
		return Cell{Text: dash, Note: "not defined"}
	}
	c := Cell{Text: fixed(d, 4)}
	if d > 0 {
		c.Text = "+" + c.Text
	}
	larger := metric == "accuracy" || metric == "failure_auroc"
	switch {
	case metric == "mean_confidence" || math.Abs(d) < 5e-5:
		c.Text = strings.TrimPrefix(c.Text, "+")
	case (d > 0) == larger:
		c.Mark, c.Sub = "good", "better"
	default:
		c.Mark, c.Sub = "bad", "worse"
	}
	return c
}

// riskCoverage draws the selective risk of a data set, with the best and the random order of the same errors.
func riskCoverage(r Report, set string) (Figure, bool) {
	rows := keep(r.RiskCoverage, func(p outputs.RiskCoverage) bool { return p.Dataset == set && p.Risk != nil })
	by := distinct(rows, func(p outputs.RiskCoverage) string { return p.RankedBy })
	if len(by) == 0 {
		return Figure{}, false
	}
	chart := lineChart{name: slug("risk", set), title: "Risk and coverage", xLabel: "Share of rows accepted", yLabel: "Errors among the accepted", exact: true}
	overall := 0.0
	for i, name := range by {
		s := series{name: "by " + readable(name), class: seriesClass(i)}
		for _, p := range thin(keep(rows, func(p outputs.RiskCoverage) bool { return p.RankedBy == name })) {
			s.x, s.y = append(s.x, p.Coverage), append(s.y, *p.Risk)
		}
		overall = s.y[len(s.y)-1]
		chart.lines = append(chart.lines, s)
	}
	oracle := series{name: "best order", class: "oracle"}
	for i := range 51 {
		c := math.Max(float64(i)/50, 1e-9)
		oracle.x = append(oracle.x, c)
		oracle.y = append(oracle.y, math.Max(0, (c-(1-overall))/c))
	}
	chart.lines = append(chart.lines, oracle, series{name: "random order", class: "chance", x: []float64{0, 1}, y: []float64{overall, overall}})
	return chart.draw("risk_coverage", "Refusing the least confident rows should lower the risk."), true
}

// thin keeps at most MaxCurvePoints rows, both ends among them.
func thin[T any](rows []T) []T {
	if len(rows) <= MaxCurvePoints {
		return rows
	}
	out := make([]T, MaxCurvePoints)
	for i := range out {
		out[i] = rows[i*(len(rows)-1)/(MaxCurvePoints-1)]
	}
	return out
}
