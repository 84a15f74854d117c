package report

import (
	"fmt"
	"math"

	"github.com/jempipe/jempipe/outputs"
)

// trainingSection draws the training curves; nil without training steps.
func trainingSection(r Report) *Section {
	if len(r.Training) == 0 {
		return nil
	}
	rows, troubles := history(r.Training)
	last := r.Training[len(r.Training)-1]
	if len(rows) > 0 {
		last = rows[len(rows)-1]
	}
	s := &Section{ID: "training", Title: "Training",
		Lead: fmt.Sprintf("%s logged steps up to step %s, epoch %s. Lines are means over a few neighbouring steps, the shade around them runs from the smallest to the largest value.",
			count(int64(len(rows))), count(last.Step), brief(last.Epoch))}
	if t := troubleTable(troubles); t != nil {
		s.Blocks = append(s.Blocks, Block{Title: "What went wrong", Table: t})
	}
	undone := spans(troubles)
	draw := func(charts []trainingChart) (figures []Figure) {
		for _, c := range charts {
			c.lines, c.xLabel, c.spans = curves(rows, c.columns...), "Step", undone
			if len(c.lines) > 0 {
				figures = append(figures, c.draw("training", c.caption))
			}
		}
		return figures
	}
	end := Block{Title: "The trained model"}
	if fig, ok := energyHistogram(r.Energies); ok {
		end.Figures = append(end.Figures, fig)
	}
	end.addSnapshot(r.Chains)
	for _, b := range []Block{
		{Title: "Loss and accuracy", Figures: draw(fitCharts)},
		{Title: "Energies", Figures: draw(energyCharts(r.GapAlarm))},
		{Title: "Chains", Figures: draw(chainCharts)},
		end,
		{Title: "Further curves", Figures: append(draw(optimiserCharts(rows)), draw(samplerCharts)...), Folded: true},
	} {
		if len(b.Figures) > 0 || b.Text != "" {
			s.Blocks = append(s.Blocks, b)
		}
	}
	return s
}

// trainingChart is a chart over the training steps.
type trainingChart struct {
	lineChart
	columns []curve
	caption string
}

// curve is a column of table training.
type curve struct {
	name string
	get  func(outputs.Training) *float64
}

type row = outputs.Training

var fitCharts = []trainingChart{
	{lineChart: lineChart{name: "t-loss", title: "Loss", yLabel: "Loss"}, columns: []curve{
		{"total", func(t row) *float64 { return t.Loss }},
		{"cross-entropy p(y|x)", func(t row) *float64 { return t.LossPYX }},
		{"energy difference p(x)", func(t row) *float64 { return t.LossPX }},
		{"energy difference p(x,y)", func(t row) *float64 { return t.LossPXY }}}},
	{lineChart: lineChart{name: "t-acc", title: "Accuracy", yLabel: "Share correct", y: &scale{lo: 0, hi: 1}}, columns: []curve{
		{"training batch", func(t row) *float64 { return t.Accuracy }},
		{"validation", func(t row) *float64 { return t.ValidAccuracy }}}},
}

// energyCharts compare what the model says of data and of samples. alarm is the size of the gap that is too large; 0
// for none.
func energyCharts(alarm float64) []trainingChart {
	gap := lineChart{name: "t-gap", title: "Energy gap", yLabel: "f(data) − f(samples), nats"}
	if alarm > 0 {
		gap.band, gap.bandLabel = [2]float64{-alarm, alarm}, "allowed: ±"+brief(alarm)
	}
	return []trainingChart{
		{lineChart: lineChart{name: "t-f", title: "Mean log density of data and samples", yLabel: "logsumexp f(x), nats"}, columns: []curve{
			{"data", func(t row) *float64 { return t.FData }},
			{"SGLD samples", func(t row) *float64 { return t.FSamples }}},
			caption: "The two should run together. Samples far below data: chains are too short. Far above: the model gives density to noise."},
		{lineChart: gap, columns: []curve{{"gap", func(t row) *float64 { return t.Gap }}},
			caption: "Near 0 when samples look like data to the model."},
		{lineChart: lineChart{name: "t-sign", title: "Sign of the gap", yLabel: "Mean sign, last 100 steps", y: &scale{lo: -1, hi: 1}}, columns: []curve{
			{"mean sign", func(t row) *float64 { return t.GapSign }}},
			caption: "Near 0 while chains follow the model. Staying at 1: the chains have lost it."},
	}
}

var chainCharts = []trainingChart{
	{lineChart: lineChart{name: "t-mean", title: "Mean element", yLabel: "Mean, model space"}, columns: []curve{
		{"data", func(t row) *float64 { return t.DataMean }},
		{"SGLD samples", func(t row) *float64 { return t.SampleMean }}},
		caption: "Samples that look like data have their mean as well."},
	{lineChart: lineChart{name: "t-bounds", title: "Elements at the bounds", yLabel: "Share at sampler.range", y: &scale{lo: 0, hi: 1}}, columns: []curve{
		{"data", func(t row) *float64 { return t.DataAtBounds }},
		{"SGLD samples", func(t row) *float64 { return t.SamplesAtBounds }}},
		caption: "Samples far above data: the chains are pressed into the corners, and no longer draw from the model."},
	{lineChart: lineChart{name: "t-move", title: "Chain displacement", yLabel: "RMS change, model space"}, columns: []curve{
		{"mean per chain and step", func(t row) *float64 { return t.ChainDisplacement }}}},
}

// optimiserCharts have the learning rate in units of a power of ten, so that the numbers at the axis are short.
func optimiserCharts(rows []outputs.Training) []trainingChart {
	largest := 0.0
	for _, t := range rows {
		if finite(t.LR) {
			largest = max(largest, t.LR)
		}
	}
	unit, label := 1.0, "Learning rate"
	if e := math.Floor(math.Log10(largest)); largest > 0 && e < 0 {
		unit, label = math.Pow(10, e), "Learning rate × 10"+superscript(int(e))
	}
	return []trainingChart{
		{lineChart: lineChart{name: "t-grad", title: "Gradient norm", yLabel: "L2 norm before clipping"}, columns: []curve{
			{"parameters", func(t row) *float64 { return t.GradNorm }}}},
		{lineChart: lineChart{name: "t-lr", title: "Learning rate", yLabel: label}, columns: []curve{
			{"learning rate", func(t row) *float64 { return new(t.LR / unit) }}}},
		{lineChart: lineChart{name: "t-reg", title: "Energy regularisation", yLabel: "Mean squared energy"}, columns: []curve{
			{"before its weight", func(t row) *float64 { return t.LossReg }}}},
	}
}

var samplerCharts = []trainingChart{
	{lineChart: lineChart{name: "t-drop", title: "Energy drop of chains", yLabel: "Start less end of a step, nats"}, columns: []curve{
		{"mean per chain and step", func(t row) *float64 { return t.EnergyDrop }}}},
	{lineChart: lineChart{name: "t-accept", title: "Accepted proposals", yLabel: "Share of MALA updates", y: &scale{lo: 0, hi: 1}}, columns: []curve{
		{"accepted", func(t row) *float64 { return t.Acceptance }}}},
}

// curves are the columns that have values. A column with few values has them marked.
func curves(rows []outputs.Training, columns ...curve) []series {
	var out []series
	for i, c := range columns {
		s := series{name: c.name, class: seriesClass(i)}
		for _, t := range rows {
			if v := c.get(t); v != nil {
				s.x, s.y = append(s.x, float64(t.Step)), append(s.y, *v)
			}
		}
		s.marks = len(s.x) <= 40
		if len(s.x) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// addSnapshot shows the newest picture of the chains.
func (b *Block) addSnapshot(s *Snapshot) {
	switch {
	case s == nil:
	case s.Image == nil:
		b.Text = fmt.Sprintf("The picture of the chains at step %s is not shown: %s. It lies in %s.", count(s.Step), s.Absent, s.Path)
	default:
		b.Figures = append(b.Figures, Figure{Title: "Chains at step " + count(s.Step), Image: s.Image, Alt: "grid of the newest SGLD samples",
			Caption: "The samples of one step. Good ones look like data.", File: s.Path})
	}
}
