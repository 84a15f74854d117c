package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/jempipe/jempipe/outputs"
)

// verdict is the page in a few sentences, made from the tables.
func verdict(r Report) string {
	var parts []string
	if name := evaluated(r); name != "" {
		if acc := calibrationValue(r, name, outputs.MapUncalibrated, "accuracy"); acc != nil {
			parts = append(parts, fmt.Sprintf("%s of %s is classified correctly.", percent(*acc), name))
		}
		before := calibrationValue(r, name, outputs.MapUncalibrated, "ece")
		after := calibrationValue(r, name, outputs.MapTemperature, "ece")
		switch {
		case before != nil && after != nil:
			parts = append(parts, fmt.Sprintf("Confidence is off by %s on average, %s after temperature scaling.", percent(*before), percent(*after)))
		case before != nil:
			parts = append(parts, fmt.Sprintf("Confidence is off by %s on average.", percent(*before)))
		}
	}
	if best, ok := bestDetector(r); ok {
		text := fmt.Sprintf("The best detector, %s, tells unfamiliar inputs from familiar ones with a mean AUROC of %s over %s",
			readable(best.detector), three(best.mean), plural(best.sets, "data set"))
		if best.sets > 1 {
			text += fmt.Sprintf("; hardest: %s with %s", best.hardest, three(best.worst))
		}
		parts = append(parts, text+".")
	}
	if len(parts) == 0 {
		return "Nothing was evaluated in this run."
	}
	return strings.Join(parts, " ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(int64(n)) + " " + noun + "s"
}

// evaluated is the data set that the verdict speaks of: the first one with calibration metrics that no map was fitted
// on, else the first one.
func evaluated(r Report) string {
	sets := distinct(r.CalibrationMetrics, func(m outputs.CalibrationMetric) string { return m.Dataset })
	fitted := make(map[string]bool)
	for _, f := range r.Recalibration {
		fitted[f.FitDataset] = true
	}
	for _, name := range sets {
		if !fitted[name] {
			return name
		}
	}
	if len(sets) > 0 {
		return sets[0]
	}
	return ""
}

// calibrationValue finds one metric; of ECE that with equal-width bins of the top label.
func calibrationValue(r Report, dataset, mapping, metric string) *float64 {
	for _, m := range r.CalibrationMetrics {
		if m.Dataset == dataset && m.Map == mapping && m.Metric == metric &&
			(m.Scheme == nil || *m.Scheme == "equal_width") && m.Scope != "classwise" {
			return m.Value
		}
	}
	return nil
}

// summary is one detector over all OOD sets.
type summary struct {
	detector    string
	mean, worst float64
	hardest     string
	sets        int
}

// bestDetector is the one with the largest mean AUROC over all pairs of data sets; those that lack one are left out.
func bestDetector(r Report) (best summary, ok bool) {
	rows := keep(r.OODMetrics, func(m outputs.OODMetric) bool { return m.Metric == outputs.MetricAUROC })
	pair := func(m outputs.OODMetric) string { return m.IDDataset + "\x00" + m.OODDataset }
	pairs := len(distinct(rows, pair))
	for _, d := range distinct(rows, func(m outputs.OODMetric) string { return m.Detector }) {
		s := summary{detector: d, worst: math.Inf(1)}
		for _, m := range rows {
			if m.Detector != d || m.Value == nil {
				continue
			}
			s.sets++
			s.mean += *m.Value
			if *m.Value < s.worst {
				s.worst, s.hardest = *m.Value, m.OODDataset
			}
		}
		if s.sets == 0 || s.sets < pairs {
			continue
		}
		s.mean /= float64(s.sets)
		if !ok || s.mean > best.mean {
			best, ok = s, true
		}
	}
	return best, ok
}

// tiles are the big numbers.
func tiles(r Report) []Tile {
	var out []Tile
	var rows, dropped, unlabelled int64
	for _, d := range r.Datasets {
		rows, dropped = rows+d.Rows, dropped+d.dropped()
		if d.Role != "ood" {
			unlabelled += d.Unlabelled
		}
	}
	if name := evaluated(r); name != "" {
		if acc := calibrationValue(r, name, outputs.MapUncalibrated, "accuracy"); acc != nil {
			out = append(out, Tile{"Accuracy", percent(*acc), "on " + name, "calibration"})
		}
		before := calibrationValue(r, name, outputs.MapUncalibrated, "ece")
		after := calibrationValue(r, name, outputs.MapTemperature, "ece")
		if before != nil && after != nil {
			out = append(out, Tile{"Calibration error", percent(*before), percent(*after) + " after temperature", "calibration"})
		} else if before != nil {
			out = append(out, Tile{"Calibration error", percent(*before), "ECE, equal-width bins", "calibration"})
		}
	}
	if best, ok := bestDetector(r); ok {
		out = append(out, Tile{"Mean AUROC", three(best.mean), readable(best.detector) + ", " + plural(best.sets, "OOD set"), "ood"})
	}
	if len(r.Datasets) > 0 {
		out = append(out, Tile{"Rows", count(rows), plural(len(r.Datasets), "data set"), "quality"})
		note := "every row was scored"
		if dropped > 0 {
			note = percent(float64(dropped)/float64(max(rows, 1))) + " of all rows"
		}
		out = append(out, Tile{"Not scored", count(dropped), note, "quality"})
		out = append(out, Tile{"Unlabelled", count(unlabelled), "in-distribution rows", "quality"})
	}
	return out
}

// findings are what the tables show that should be known before the numbers are trusted.
func findings(r Report) []Finding {
	var out []Finding
	for _, d := range r.Datasets {
		if n := d.dropped(); n > 0 {
			out = append(out, Finding{fmt.Sprintf("%s of %s rows of %s could not be scored.", count(n), count(d.Rows), d.Name), "quality"})
		}
		if d.Rows > 0 && 2*d.Saturated > d.Rows {
			out = append(out, Finding{fmt.Sprintf("%s of %s has confidence exactly 1: it cannot be ranked by confidence.", percent(float64(d.Saturated)/float64(d.Rows)), d.Name), "quality"})
		}
		if d.Duplicates > 0 {
			out = append(out, Finding{fmt.Sprintf("%s of %s have a sample_id that occurred before: joins on it give too many rows.", plural(int(d.Duplicates), "row"), d.Name), "quality"})
		}
		for _, c := range d.Constant {
			out = append(out, Finding{fmt.Sprintf("Detector %s gives every row of %s the same score.", readable(c), d.Name), "quality"})
		}
	}
	for _, f := range r.Recalibration {
		if f.HitBound {
			out = append(out, Finding{fmt.Sprintf("The fit of %s ended at a bound: do not trust the calibrated numbers.", readable(f.Parameter)), "calibration"})
		}
	}
	rows, troubles := history(r.Training)
	out = append(out, troubleFindings(troubles)...)
	if n := alarms(rows, r.GapAlarm); n > 0 {
		out = append(out, Finding{fmt.Sprintf("The energy gap left its band of ±%s at %s.", brief(r.GapAlarm), plural(n, "logged step")), "training"})
	}
	return append(out, blindDetectors(r)...)
}

// alarms counts the logged steps whose gap is outside the band.
func alarms(rows []outputs.Training, limit float64) int {
	n := 0
	for _, t := range rows {
		if limit > 0 && t.Gap != nil && math.Abs(*t.Gap) > limit {
			n++
		}
	}
	return n
}

// blindDetectors names the OOD sets that no detector ranks better than chance.
func blindDetectors(r Report) []Finding {
	var out []Finding
	rows := keep(r.OODMetrics, func(m outputs.OODMetric) bool { return m.Metric == outputs.MetricAUROC && m.Value != nil })
	for _, set := range distinct(rows, func(m outputs.OODMetric) string { return m.OODDataset }) {
		better := keep(rows, func(m outputs.OODMetric) bool {
			lower := *m.Value
			if m.CILow != nil {
				lower = *m.CILow
			}
			return m.OODDataset == set && lower > 0.5
		})
		if len(better) == 0 {
			out = append(out, Finding{fmt.Sprintf("No detector ranks %s better than chance.", set), "ood"})
		}
	}
	return out
}
