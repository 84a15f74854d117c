package score

// Outcomes is the multiset of (confidence, right or wrong) of predicted rows, at 8 bytes a row: what selective
// prediction and equal-mass bins need. A confidence may be any number that is larger for surer rows, not only a
// probability; NaN is counted as dropped. The zero value is empty. The rules of [Scores] on goroutines hold.
type Outcomes struct {
	right, wrong Scores
}

// Add adds a row.
func (o *Outcomes) Add(confidence float64, correct bool) {
	if correct {
		o.right.Add(confidence)
	} else {
		o.wrong.Add(confidence)
	}
}

// Merge adds all rows of other.
func (o *Outcomes) Merge(other *Outcomes) {
	o.right.Merge(&other.right)
	o.wrong.Merge(&other.wrong)
}

// N is the number of rows.
func (o *Outcomes) N() int64 { return o.right.Len() + o.wrong.Len() }

// Errors is the number of wrong rows.
func (o *Outcomes) Errors() int64 { return o.wrong.Len() }

// Dropped is the number of rows left out because their confidence is NaN.
func (o *Outcomes) Dropped() int64 { return o.right.dropped + o.wrong.dropped }

// Accuracy is the share of right rows, with a Wilson interval.
func (o *Outcomes) Accuracy() Metric { return proportion(o.right.Len(), o.N(), CIWilson) }

func (o *Outcomes) sort() {
	o.right.Sort()
	o.wrong.Sort()
}

// FailureAUROC is the probability that a right row is surer than a wrong one, ties half: AUROC of the confidence
// as a detector of errors.
func (o *Outcomes) FailureAUROC() Metric { return Rank(&o.wrong, &o.right).AUROC() }

// EqualMassBins cuts the rows in rising confidence into n bins (0 or less: DefaultBins) of as equal size as ties
// allow: row r of N (from 0) belongs to bin floor(r n / N), and rows of equal confidence all go to the bin of the
// first of them. Bins left without rows are not listed, so fewer than n is legal: one when all confidences are equal.
func (o *Outcomes) EqualMassBins(n int) Bins {
	if n <= 0 {
		n = DefaultBins
	}
	o.sort()
	var out Bins
	var cell binCell
	total, at := o.N(), int64(-1)
	var lo, hi float64
	for b := range blocks(o.right.keys, o.wrong.keys) {
		c := keyValue(b.key)
		if to := (b.aBelow + b.bBelow) * int64(n) / total; to != at {
			if cell.count > 0 {
				out = append(out, cell.bin(lo, hi))
			}
			cell, at, lo = binCell{}, to, c
		}
		hi = c
		for range b.aTie {
			cell.add(c, true)
		}
		for range b.bTie {
			cell.add(c, false)
		}
	}
	if cell.count > 0 {
		out = append(out, cell.bin(lo, hi))
	}
	return out
}
