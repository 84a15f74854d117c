package score

import "fmt"

// Reliability collects a reliability table of equal-width bins: (lo, hi], the first takes 0, edges i/n. Its memory
// does not grow with the rows.
type Reliability struct {
	cells   []binCell
	dropped int64
}

// NewReliability has n bins, at least 1; 0 or less means DefaultBins.
func NewReliability(n int) *Reliability {
	if n <= 0 {
		n = DefaultBins
	}
	return &Reliability{cells: make([]binCell, n)}
}

// Add adds a row with its confidence in [0,1] and whether the predicted class was right. A confidence that is NaN or
// outside is counted as dropped, and false returned.
func (r *Reliability) Add(confidence float64, correct bool) bool {
	if !(confidence >= 0 && confidence <= 1) {
		r.dropped++
		return false
	}
	r.cells[equalWidthBin(confidence, len(r.cells))].add(confidence, correct)
	return true
}

// Merge adds all rows of o. Both must have the same number of bins.
func (r *Reliability) Merge(o *Reliability) error {
	if len(r.cells) != len(o.cells) {
		return fmt.Errorf("cannot merge reliability tables of %d and %d bins", len(r.cells), len(o.cells))
	}
	for i := range r.cells {
		r.cells[i].merge(&o.cells[i])
	}
	r.dropped += o.dropped
	return nil
}

// Dropped is the number of rows left out.
func (r *Reliability) Dropped() int64 { return r.dropped }

// Bins is the table, empty bins included.
func (r *Reliability) Bins() Bins {
	out := make(Bins, len(r.cells))
	n := float64(len(r.cells))
	for i := range r.cells {
		out[i] = r.cells[i].bin(float64(i)/n, float64(i+1)/n)
	}
	return out
}

// Classwise collects one reliability table a class: p_k of every row against whether its label is k (Kull et al. 2019).
// Its memory is about 0.6 kB for each class and bin.
type Classwise struct {
	classes []*Reliability
	dropped int64
}

// NewClasswise has K classes and n bins (0 or less: DefaultBins).
func NewClasswise(classes, n int) *Classwise {
	c := &Classwise{classes: make([]*Reliability, classes)}
	for k := range c.classes {
		c.classes[k] = NewReliability(n)
	}
	return c
}

// Add adds a row: K probabilities in [0,1] and its label in 0..K-1. A row that does not fit is counted as dropped, and
// false returned.
func (c *Classwise) Add(probs []float64, label int32) bool {
	ok := len(probs) == len(c.classes) && label >= 0 && int(label) < len(probs)
	for _, p := range probs {
		ok = ok && p >= 0 && p <= 1
	}
	if !ok {
		c.dropped++
		return false
	}
	for k, p := range probs {
		c.classes[k].Add(p, k == int(label))
	}
	return true
}

// Merge adds all rows of o. Both must have the same classes and bins.
func (c *Classwise) Merge(o *Classwise) error {
	if len(c.classes) != len(o.classes) {
		return fmt.Errorf("cannot merge classwise tables of %d and %d classes", len(c.classes), len(o.classes))
	}
	for k := range c.classes {
		if err := c.classes[k].Merge(o.classes[k]); err != nil {
			return err
		}
	}
	c.dropped += o.dropped
	return nil
}

// Dropped is the number of rows left out.
func (c *Classwise) Dropped() int64 { return c.dropped }

// Bins is the table of class k; Accuracy in it is the share of rows with label k.
func (c *Classwise) Bins(k int) Bins { return c.classes[k].Bins() }

// ECE is the mean over all classes, also those that no label names, of the class's ECE: the static calibration error
// of Nixon et al. 2019.
func (c *Classwise) ECE() Metric {
	if len(c.classes) == 0 {
		return undefined(ReasonNoRows)
	}
	sum := 0.0
	for k := range c.classes {
		m := c.Bins(k).ECE()
		if !m.Defined {
			return m
		}
		sum += m.Value
	}
	return defined(sum / float64(len(c.classes)))
}
