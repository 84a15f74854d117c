package report

import (
	"fmt"
	"html/template"
	"math"

	"github.com/jempipe/jempipe/outputs"
)

// reliability draws a reliability diagram: accuracy of each confidence bin as a bar, the gap to the mean confidence,
// the interval of the accuracy, and below it how many rows each bin has. Empty bins stay blank.
func reliability(name, title string, bins []outputs.CalibrationBin) Figure {
	const strip = 46.0 // height of the counts
	height := chartWidth - left - right + top + bottom + strip + 8
	unit := scale{lo: 0, hi: 1}
	c := newCanvas(name, title, describeBins(bins), chartWidth, height)
	x, y := unit, unit
	x.from, x.to = left, chartWidth-right
	y.from, y.to = height-bottom-strip-8, top
	for _, t := range unit.ticks(5) {
		at := y.at(t.value)
		c.line(left, at, chartWidth-right, at, "grid")
		c.text(left-6, at+3.5, "end", "tick", t.label)
		c.text(x.at(t.value), height-bottom+15, "middle", "tick", t.label)
	}
	for _, b := range bins {
		if b.Count == 0 || b.Accuracy == nil || b.MeanConf == nil {
			continue
		}
		reliabilityBar(c, b, x, y)
	}
	c.line(x.at(0), y.at(0), x.at(1), y.at(1), "diagonal")
	c.line(left, y.from, chartWidth-right, y.from, "axis")
	counts(c, bins, x, height-bottom, strip)
	c.text((left+chartWidth-right)/2, height-4, "middle", "label", "Confidence")
	c.turned(11, (top+y.from)/2, "label", "Accuracy")
	return Figure{Title: title, SVG: c.html(), Table: "calibration_bins", Legend: []LegendEntry{
		{"bar", "accuracy", ""}, {"gap over", "gap, over-confident", ""}, {"gap under", "gap, under-confident", ""},
		{"diagonal", "perfect", ""}, {"whisker", "95 % interval", ""},
	}}
}

func reliabilityBar(c *canvas, b outputs.CalibrationBin, x, y scale) {
	from, to := x.at(b.Lo)+0.75, x.at(b.Hi)-0.75
	if to-from < 1.5 {
		from, to = (from+to)/2-0.75, (from+to)/2+0.75
	}
	hint := fmt.Sprintf("confidence %s to %s: %s rows, accuracy %s, mean confidence %s",
		three(b.Lo), three(b.Hi), count(b.Count), percent(*b.Accuracy), percent(*b.MeanConf))
	hi, lo := y.at(max(*b.Accuracy, *b.MeanConf)), y.at(min(*b.Accuracy, *b.MeanConf))
	c.rect(from, lo, to-from, y.from-lo, "bar", hint) // the gap stands on it
	class := "gap over"
	if *b.MeanConf < *b.Accuracy {
		class = "gap under"
	}
	c.rect(from, hi, to-from, lo-hi, class, hint)
	if b.CILow != nil && b.CIHigh != nil {
		mid := (from + to) / 2
		c.line(mid, y.at(*b.CILow), mid, y.at(*b.CIHigh), "whisker")
		c.line(mid-2.5, y.at(*b.CILow), mid+2.5, y.at(*b.CILow), "whisker")
		c.line(mid-2.5, y.at(*b.CIHigh), mid+2.5, y.at(*b.CIHigh), "whisker")
	}
}

// counts draws the share of rows in each bin as a strip that stands on base.
func counts(c *canvas, bins []outputs.CalibrationBin, x scale, base, height float64) {
	var most, total int64
	for _, b := range bins {
		most, total = max(most, b.Count), total+b.Count
	}
	c.line(x.from, base, x.to, base, "axis")
	c.text(left-6, base-height/2+3.5, "end", "tick", "rows")
	if most == 0 {
		return
	}
	for _, b := range bins {
		if b.Count == 0 {
			continue
		}
		h := max(float64(b.Count)/float64(most)*height, 0.75)
		from, to := x.at(b.Lo)+0.75, x.at(b.Hi)-0.75
		c.rect(from, base-h, max(to-from, 1.5), h, "count",
			fmt.Sprintf("%s rows, %s", count(b.Count), percent(float64(b.Count)/float64(total))))
	}
}

func describeBins(bins []outputs.CalibrationBin) string {
	text := "Accuracy against confidence."
	for _, b := range bins {
		if b.Count > 0 && b.Accuracy != nil && b.MeanConf != nil {
			text += fmt.Sprintf(" Mean confidence %s: accuracy %s, %d rows.", three(*b.MeanConf), three(*b.Accuracy), b.Count)
		}
	}
	return text
}

// histogram is the counts of one data set on the edges that the chart shares.
type histogram struct {
	name   string
	lo, hi []float64
	count  []int64
}

func (h histogram) total() (n int64) {
	for _, c := range h.count {
		n += c
	}
	return n
}

// overlay draws two histograms over each other as shares of their rows, with a threshold; NaN for none.
func overlay(name, title, xLabel string, id, ood histogram, threshold float64) Figure {
	fig := Figure{Title: title, Table: "histograms", Legend: []LegendEntry{
		{"hist-id", id.name, count(id.total())}, {"hist-ood", ood.name, count(ood.total())},
	}}
	if !math.IsNaN(threshold) {
		fig.Legend = append(fig.Legend, LegendEntry{"threshold", "flagged from " + brief(threshold), ""})
	}
	fig.SVG = overlaid(name, title, xLabel, id, ood, threshold, false)
	fig.Log = overlaid(name+"-log", title+", logarithmic", xLabel, id, ood, threshold, true)
	return fig
}

func overlaid(name, title, xLabel string, id, ood histogram, threshold float64, log bool) template.HTML {
	idY, oodY := id.shares(), ood.shares()
	y := around(idY, oodY, []float64{0})
	if log {
		least := 0.5 / float64(max(id.total(), ood.total(), 1))
		y = scale{lo: math.Pow(10, math.Floor(math.Log10(least))), hi: 1, log: true}
	}
	x := scale{lo: id.lo[0], hi: id.hi[len(id.hi)-1]}
	desc := fmt.Sprintf("Share of rows against %s: %s has its median near %s, %s near %s.",
		xLabel, id.name, significant(id.median()), ood.name, significant(ood.median()))
	f := newFrame(name, title, desc, x, y, xLabel, "Share of rows", chartHeight)
	f.steps(id, idY, "hist-id", true)
	f.steps(ood, oodY, "hist-ood", true)
	f.steps(id, idY, "hist-id-line", false)
	f.steps(ood, oodY, "hist-ood-line", false)
	if threshold >= x.lo && threshold <= x.hi {
		at := f.x.at(threshold)
		f.line(at, top, at, f.y.from, "threshold")
		anchor, dx := "start", 4.0
		if at > chartWidth*0.7 {
			anchor, dx = "end", -4.0
		}
		f.text(at+dx, top+9, anchor, "note", "flagged →")
	}
	return f.html()
}

// steps draws a histogram as steps, filled down to the axis or as an outline, which leaves out empty bins.
func (f frame) steps(h histogram, share []float64, class string, fill bool) {
	var xs, ys, base []float64
	for i := range share {
		y := f.y.at(share[i])
		if !fill && share[i] == 0 {
			y = math.NaN()
		}
		xs = append(xs, f.x.at(h.lo[i]), f.x.at(h.hi[i]))
		ys = append(ys, y, y)
		base = append(base, f.y.from, f.y.from)
	}
	if fill {
		f.area(xs, base, ys, class)
		return
	}
	f.path(xs, ys, class)
}

// shares are the counts over their total; zeros where there are no rows.
func (h histogram) shares() []float64 {
	out := make([]float64, len(h.count))
	if total := h.total(); total > 0 {
		for i, c := range h.count {
			out[i] = float64(c) / float64(total)
		}
	}
	return out
}

// median is the middle of the bin that holds the middle row; NaN without rows.
func (h histogram) median() float64 {
	half, sum := (h.total()+1)/2, int64(0)
	for i, c := range h.count {
		sum += c
		if sum >= half && c > 0 {
			return (h.lo[i] + h.hi[i]) / 2
		}
	}
	return math.NaN()
}
