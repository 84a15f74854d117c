package report

import (
	"fmt"
	"math"
)

// The frame that all charts share, in pixels. Charts are drawn near the size at which they are shown on a telephone, so
// that their letters stay legible there.
const (
	chartWidth  = 360.0
	chartHeight = 250.0
	left        = 56.0
	right       = 10.0
	top         = 10.0
	bottom      = 36.0
)

// series is one line of a chart. Lo and hi, where given, are drawn as a band around it.
type series struct {
	name   string
	class  string
	x, y   []float64
	lo, hi []float64
	marks  bool // points are marked: few and far between
}

// lineChart describes a chart of lines.
type lineChart struct {
	name, title    string
	xLabel, yLabel string
	lines          []series
	band           [2]float64 // a horizontal band of allowed values; none when equal
	bandLabel      string
	y              *scale // nil: around the values
	square         bool   // as high as wide
	exact          bool   // curves, of which every point counts
	points         []point
	spans          []span // stretches of x that stand out
}

// span is a stretch of x, with a line at its end.
type span struct {
	from, to float64
	hint     string
}

// frame is the plot area with its scales.
type frame struct {
	*canvas
	x, y scale
}

// newFrame draws axes, grid and labels.
func newFrame(name, title, desc string, x, y scale, xLabel, yLabel string, height float64) frame {
	c := newCanvas(name, title, desc, chartWidth, height)
	x.from, x.to = left, chartWidth-right
	y.from, y.to = height-bottom, top
	f := frame{c, x, y}
	for _, t := range y.ticks(4) {
		at := y.at(t.value)
		c.line(left, at, chartWidth-right, at, "grid")
		c.text(left-6, at+3.5, "end", "tick", t.label)
	}
	for _, t := range x.ticks(5) {
		at := x.at(t.value)
		c.line(at, y.from, at, y.from+4, "axis")
		c.text(at, y.from+15, "middle", "tick", t.label)
	}
	c.line(left, y.from, chartWidth-right, y.from, "axis")
	c.text((left+chartWidth-right)/2, height-4, "middle", "label", xLabel)
	c.turned(11, (top+y.from)/2, "label", yLabel)
	return f
}

// draw makes the chart. Lines of more points than fit are drawn as means of buckets with a band from the smallest to
// the largest value.
func (l lineChart) draw(table, caption string) Figure {
	var xs, ys [][]float64
	fig := Figure{Title: l.title, Caption: caption, Table: table}
	for i := range l.lines {
		s := &l.lines[i]
		if !l.exact {
			s.bucket(chartBuckets)
		}
		xs, ys = append(xs, s.x), append(ys, s.y, s.lo, s.hi)
		fig.Legend = append(fig.Legend, LegendEntry{s.class, s.name, ""})
	}
	if l.band[0] != l.band[1] {
		ys = append(ys, l.band[:])
		fig.Legend = append(fig.Legend, LegendEntry{"band", l.bandLabel, ""})
	}
	if len(l.spans) > 0 {
		fig.Legend = append(fig.Legend, LegendEntry{"undone", "taken back", ""})
	}
	y := around(ys...)
	if l.y != nil {
		y = *l.y
	}
	x := around(xs...)
	x.lo, x.hi = extent(xs)
	height := chartHeight
	if l.square {
		height = chartWidth - left - right + top + bottom
	}
	f := newFrame(l.name, l.title, l.describe(), x, y, l.xLabel, l.yLabel, height)
	if l.band[0] != l.band[1] {
		hi, lo := f.y.at(min(l.band[1], f.y.hi)), f.y.at(max(l.band[0], f.y.lo))
		f.rect(left, hi, chartWidth-left-right, lo-hi, "band", l.bandLabel)
	}
	f.drawSpans(l.spans)
	for _, s := range l.lines {
		f.area(f.x.all(s.x[:len(s.lo)]), f.y.all(s.lo), f.y.all(s.hi), "spread "+s.class)
	}
	for _, s := range l.lines {
		f.path(f.x.all(s.x), f.y.all(s.y), "line "+s.class)
		if s.marks {
			for i := range s.x {
				f.circle(f.x.at(s.x[i]), f.y.at(s.y[i]), 2.2, "mark "+s.class, s.name+": "+significant(s.y[i]))
			}
		}
	}
	for _, p := range l.points {
		f.circle(f.x.at(p.x), f.y.at(p.y), 3.2, "mark "+p.class, p.hint)
	}
	fig.SVG = f.html()
	return fig
}

// drawSpans shades stretches, as far as they lie on the chart.
func (f frame) drawSpans(list []span) {
	for _, s := range list {
		if s.to < f.x.lo || s.from > f.x.hi {
			continue
		}
		from, to := f.x.at(max(s.from, f.x.lo)), f.x.at(min(s.to, f.x.hi))
		f.rect(from, top, to-from, f.y.from-top, "undone", s.hint)
		f.line(to, top, to, f.y.from, "event")
	}
}

// point is a marked place on a chart.
type point struct {
	x, y        float64
	class, hint string
}

// describe says in words where each line starts and ends.
func (l lineChart) describe() string {
	text := l.yLabel + " against " + l.xLabel + "."
	for _, s := range l.lines {
		if n := len(s.y); n > 0 {
			text += fmt.Sprintf(" %s: from %s to %s.", s.name, significant(s.y[0]), significant(s.y[n-1]))
		}
	}
	return text
}

// extent is the range of all values; [0,1] when there is none.
func extent(values [][]float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, vs := range values {
		for _, v := range vs {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	switch {
	case lo > hi:
		return 0, 1
	case lo == hi:
		return lo - 0.5, hi + 0.5
	}
	return lo, hi
}

// chartBuckets is how many points of a line are told apart at the width of a chart.
const chartBuckets = 150

// bucket replaces a long line by the means of n equal runs of points, with the range of each.
func (s *series) bucket(n int) {
	if len(s.x) <= n || s.marks {
		return
	}
	var x, y, lo, hi []float64
	for i := range n {
		from, to := i*len(s.x)/n, (i+1)*len(s.x)/n
		sx, sy, low, high := 0.0, 0.0, math.Inf(1), math.Inf(-1)
		for j := from; j < to; j++ {
			sx += s.x[j]
			sy += s.y[j]
			low, high = min(low, s.y[j]), max(high, s.y[j])
		}
		k := float64(to - from)
		x, y, lo, hi = append(x, sx/k), append(y, sy/k), append(lo, low), append(hi, high)
	}
	s.x, s.y, s.lo, s.hi = x, y, lo, hi
}
