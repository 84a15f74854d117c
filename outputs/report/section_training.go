package report

import (
	"fmt"

	"github.com/jempipe/jempipe/outputs"
)

// trainingSection draws the training curves; nil without training steps.
func trainingSection(r Report) *Section {
	if len(r.Training) == 0 {
		return nil
	}
	last := r.Training[len(r.Training)-1]
	s := &Section{ID: "training", Title: "Training",
		Lead: fmt.Sprintf("%s logged steps up to step %s, epoch %s. Lines are means over a few neighbouring steps, the shade around them runs from the smallest to the largest value.",
			count(int64(len(r.Training))), count(last.Step), brief(last.Epoch))}
	type row = outputs.Training
	unit := &scale{lo: 0, hi: 1}
	charts := []lineChart{
		{name: "t-loss", title: "Loss", yLabel: "Loss", lines: curves(r.Training,
			curve{"total", func(t row) *float64 { return t.Loss }},
			curve{"cross-entropy p(y|x)", func(t row) *float64 { return t.LossPYX }},
			curve{"energy difference p(x)", func(t row) *float64 { return t.LossPX }},
			curve{"energy difference p(x,y)", func(t row) *float64 { return t.LossPXY }},
			curve{"regularisation", func(t row) *float64 { return t.LossReg }})},
		{name: "t-f", title: "Mean log density of data and samples", yLabel: "logsumexp f(x), nats", lines: curves(r.Training,
			curve{"data", func(t row) *float64 { return t.FData }},
			curve{"SGLD samples", func(t row) *float64 { return t.FSamples }})},
		{name: "t-gap", title: "Energy gap", yLabel: "f(data) − f(samples), nats", lines: curves(r.Training,
			curve{"gap", func(t row) *float64 { return t.Gap }})},
		{name: "t-acc", title: "Accuracy", yLabel: "Share correct", y: unit, lines: curves(r.Training,
			curve{"training batch", func(t row) *float64 { return t.Accuracy }},
			curve{"validation", func(t row) *float64 { return t.ValidAccuracy }})},
		{name: "t-grad", title: "Gradient norm", yLabel: "L2 norm before clipping", lines: curves(r.Training,
			curve{"parameters", func(t row) *float64 { return t.GradNorm }})},
		{name: "t-move", title: "Chain displacement", yLabel: "RMS change, model space", lines: curves(r.Training,
			curve{"mean per chain and step", func(t row) *float64 { return t.ChainDisplacement }})},
	}
	captions := map[string]string{
		"t-f":   "The two should run together. Samples far below data: chains are too short. Far above: the model gives density to noise.",
		"t-gap": "Near 0 when samples look like data to the model.",
	}
	if r.GapAlarm > 0 {
		charts[2].band = [2]float64{-r.GapAlarm, r.GapAlarm}
		charts[2].bandLabel = "allowed: ±" + brief(r.GapAlarm)
	}
	var figures []Figure
	for _, c := range charts {
		if len(c.lines) == 0 {
			continue
		}
		c.xLabel = "Step"
		figures = append(figures, c.draw("training", captions[c.name]))
	}
	s.Blocks = []Block{{Figures: figures}}
	return s
}

// curve is a column of table training.
type curve struct {
	name string
	get  func(outputs.Training) *float64
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
