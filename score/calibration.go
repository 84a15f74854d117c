package score

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Calibration collects, from logits and labels, every figure on how far the softmax of a classifier can be trusted.
// It keeps 8 bytes a row, for [Outcomes]; the rest does not grow with the rows.
type Calibration struct {
	TopLabel  *Reliability // confidence against right or wrong
	Classwise *Classwise   // p_k against label k, for each class
	Outcomes  Outcomes     // for equal-mass bins and risk-coverage
	Confusion *Confusion

	temperature float64
	nll, brier  moments
	byLabel     []Sum // confidence of the rows of each label
	dropped     []Drop
	probs       []float64
}

// Drop counts the rows left out for one reason.
type Drop struct {
	Reason string
	N      int64
}

// NewCalibration is for K classes, n bins (0 or less: DefaultBins) and logits divided by a temperature > 0 (1 leaves
// them alone).
func NewCalibration(classes, bins int, temperature float64) *Calibration {
	return &Calibration{
		TopLabel:    NewReliability(bins),
		Classwise:   NewClasswise(classes, bins),
		Confusion:   NewConfusion(classes),
		temperature: temperature,
		byLabel:     make([]Sum, classes),
		probs:       make([]float64, classes),
	}
}

// Add adds a row of K logits and its label. A row that cannot be used is counted under the reason that is returned;
// "" means that it was used.
func (c *Calibration) Add(logits []float32, label int32) (reason string) {
	if reason = c.reject(logits, label); reason != "" {
		c.drop(Drop{reason, 1})
		return reason
	}
	row := DescribeAt(logits, c.temperature, c.probs)
	if row.Reason != "" {
		c.drop(Drop{row.Reason, 1})
		return row.Reason
	}
	correct := row.Pred == int(label)
	c.TopLabel.Add(row.Confidence, correct)
	c.Classwise.Add(c.probs, label)
	c.Outcomes.Add(row.Confidence, correct)
	c.Confusion.Add(int(label), row.Pred)
	c.nll.add(NLLAt(logits, label, c.temperature))
	c.brier.add(Brier(c.probs, label))
	c.byLabel[label].Add(row.Confidence)
	return ""
}

func (c *Calibration) reject(logits []float32, label int32) string {
	switch {
	case len(logits) != len(c.probs):
		return ReasonLogitCount
	case label < 0 || int(label) >= len(c.probs):
		return ReasonBadLabel
	}
	return ""
}

func (c *Calibration) drop(d Drop) {
	at, ok := slices.BinarySearchFunc(c.dropped, d, func(a, b Drop) int { return cmp.Compare(a.Reason, b.Reason) })
	if !ok {
		c.dropped = slices.Insert(c.dropped, at, Drop{Reason: d.Reason})
	}
	c.dropped[at].N += d.N
}

// Merge adds all rows of o. Both must have the same classes, bins and temperature, or nothing is added. The result does not depend, to the
// bit, on the order of merging.
func (c *Calibration) Merge(o *Calibration) error {
	if len(c.probs) != len(o.probs) || len(c.TopLabel.cells) != len(o.TopLabel.cells) || c.temperature != o.temperature {
		return fmt.Errorf("cannot merge calibration of %d classes, %d bins, temperature %v and %d classes, %d bins, temperature %v",
			len(c.probs), len(c.TopLabel.cells), c.temperature, len(o.probs), len(o.TopLabel.cells), o.temperature)
	}
	err := errors.Join(c.Confusion.Merge(o.Confusion), c.TopLabel.Merge(o.TopLabel), c.Classwise.Merge(o.Classwise))
	if err != nil {
		return err
	}
	c.Outcomes.Merge(&o.Outcomes)
	c.nll.merge(&o.nll)
	c.brier.merge(&o.brier)
	for k := range c.byLabel {
		c.byLabel[k].Merge(&o.byLabel[k])
	}
	for _, d := range o.dropped {
		c.drop(d)
	}
	return nil
}

// N is the number of rows used.
func (c *Calibration) N() int64 { return c.nll.n }

// Dropped lists the reasons for which rows were left out, in alphabetical order, with their numbers.
func (c *Calibration) Dropped() []Drop { return slices.Clone(c.dropped) }

// NDropped is the number of rows left out.
func (c *Calibration) NDropped() int64 {
	n := int64(0)
	for _, d := range c.dropped {
		n += d.N
	}
	return n
}

// Accuracy is the share of right rows, with a Wilson interval; a tie counts as its lowest class.
func (c *Calibration) Accuracy() Metric { return c.Confusion.Accuracy() }

// NLL is the mean negative log-likelihood in nats, from logits, with a normal interval. It is +Inf, without an
// interval, when a label's logit is -Inf.
func (c *Calibration) NLL() Metric { return c.nll.metric() }

// Brier is the mean of sum_k (p_k - [y=k])^2, in [0,2], with a normal interval.
func (c *Calibration) Brier() Metric { return c.brier.metric() }

// MeanConfidence is the mean top-label confidence.
func (c *Calibration) MeanConfidence() Metric {
	if c.N() == 0 {
		return undefined(ReasonNoRows)
	}
	var sum Sum
	for i := range c.byLabel {
		sum.Merge(&c.byLabel[i])
	}
	return defined(sum.Mean(c.N()))
}

// ClassRow is one line of the per-class table.
type ClassRow struct {
	Class     int
	N         int64  // rows with this label
	Correct   int64  // of these, predicted as this class
	Predicted int64  // rows predicted as this class
	Accuracy  Metric // Correct/N, the recall
	Precision Metric // Correct/Predicted
	MeanConf  Metric // mean top-label confidence of the rows with this label
	ECE       Metric // of p_k against label k, over all rows
}

// PerClass has a line for each class, in index order, also for those without rows.
func (c *Calibration) PerClass() []ClassRow {
	out := make([]ClassRow, len(c.byLabel))
	for k := range out {
		n, right, predicted := c.Confusion.Labelled(k), c.Confusion.Count(k, k), c.Confusion.Predicted(k)
		row := ClassRow{
			Class: k, N: n, Correct: right, Predicted: predicted,
			Accuracy:  proportion(right, n, CIWilson),
			Precision: proportion(right, predicted, CIWilson),
			MeanConf:  undefined(ReasonNoRows),
			ECE:       c.Classwise.Bins(k).ECE(),
		}
		if n > 0 {
			row.MeanConf = defined(c.byLabel[k].Mean(n))
		}
		out[k] = row
	}
	return out
}
