package score

import "math"

// DefaultBins is the number of bins of Guo et al. 2017.
const DefaultBins = 15

// Bin is one bin of a reliability table. In tables of equal width a bin is (Lo, Hi], and the first one takes 0 as well.
// In tables of equal mass Lo and Hi are the smallest and the largest confidence in it.
type Bin struct {
	Lo, Hi   float64
	Count    int64
	Correct  int64
	MeanConf float64 // NaN when the bin is empty
	Accuracy float64 // NaN when the bin is empty
	Gap      float64 // MeanConf - Accuracy: positive means overconfident. NaN when the bin is empty
	CILow    float64 // 95 % Wilson interval of Accuracy, NaN when the bin is empty
	CIHigh   float64
}

// Bins is a reliability table: confidences in rising order against how often they were right. Empty bins stay in it
// and add nothing to any figure.
type Bins []Bin

// binCell adds up one bin; see Sum for why its mean does not depend on the order of rows.
type binCell struct {
	count, correct int64
	confidence     Sum
}

func (c *binCell) add(confidence float64, correct bool) {
	c.count++
	if correct {
		c.correct++
	}
	c.confidence.Add(confidence)
}

func (c *binCell) merge(o *binCell) {
	c.count += o.count
	c.correct += o.correct
	c.confidence.Merge(&o.confidence)
}

func (c *binCell) bin(lo, hi float64) Bin {
	b := Bin{Lo: lo, Hi: hi, Count: c.count, Correct: c.correct, MeanConf: nan, Accuracy: nan, Gap: nan, CILow: nan, CIHigh: nan}
	if c.count > 0 {
		b.MeanConf = c.confidence.Mean(c.count)
		b.Accuracy = float64(c.correct) / float64(c.count)
		b.Gap = b.MeanConf - b.Accuracy
		b.CILow, b.CIHigh = Wilson(c.correct, c.count)
	}
	return b
}

// equalWidthBin is the index of the bin of c in [0,1] among n bins (i/n, (i+1)/n], the first closed below. The edges
// are the float64 quotients i/n, and c is compared with them: ceil(c*n) is wrong at edges such as 7/25.
func equalWidthBin(c float64, n int) int {
	i := min(int(c*float64(n)), n-1)
	for i > 0 && c <= float64(i)/float64(n) {
		i--
	}
	for i < n-1 && c > float64(i+1)/float64(n) {
		i++
	}
	return i
}

// N is the number of rows in the table.
func (bs Bins) N() int64 {
	n := int64(0)
	for _, b := range bs {
		n += b.Count
	}
	return n
}

// ECE is the expected calibration error, sum_b n_b/N |gap_b| (Naeini et al. 2015, Guo et al. 2017). It is a
// biased estimate, upwards with many bins and few rows.
func (bs Bins) ECE() Metric {
	return bs.reduce(func(n float64) float64 {
		e := 0.0
		for _, b := range bs {
			if b.Count > 0 {
				e += float64(b.Count) / n * math.Abs(b.Gap)
			}
		}
		return e
	})
}

// MCE is the largest |gap| of the bins with at least minCount rows (and at least one). ReasonTooFewRows when there is
// no such bin.
func (bs Bins) MCE(minCount int64) Metric {
	largest := nan
	for _, b := range bs {
		if b.Count >= max(1, minCount) && !(math.Abs(b.Gap) <= largest) {
			largest = math.Abs(b.Gap)
		}
	}
	if largest != largest && bs.N() > 0 {
		return undefined(ReasonTooFewRows)
	}
	return bs.reduce(func(float64) float64 { return largest })
}

// RMSCE is sqrt(sum_b n_b/N gap_b^2), the plug-in L2 calibration error.
func (bs Bins) RMSCE() Metric {
	return bs.reduce(func(n float64) float64 { return math.Sqrt(bs.squares(n, false)) })
}

// MeanOfBins is the plain mean of |gap| over the bins that are not empty, which some tools call ACE.
func (bs Bins) MeanOfBins() Metric {
	return bs.reduce(func(float64) float64 {
		sum, used := 0.0, 0
		for _, b := range bs {
			if b.Count > 0 {
				sum += math.Abs(b.Gap)
				used++
			}
		}
		return sum / float64(used)
	})
}

// DebiasedL2Squared is sum_b n_b/N [gap_b^2 - a_b (1 - a_b)/(n_b - 1)] over the bins with two rows or more (Kumar,
// Liang and Ma 2019). It may be negative.
func (bs Bins) DebiasedL2Squared() Metric {
	return bs.reduce(func(n float64) float64 { return bs.squares(n, true) })
}

// DebiasedL2 is the root of DebiasedL2Squared, 0 when that is negative.
func (bs Bins) DebiasedL2() Metric {
	return bs.reduce(func(n float64) float64 { return math.Sqrt(max(0, bs.squares(n, true))) })
}

func (bs Bins) squares(n float64, debias bool) float64 {
	sum := 0.0
	for _, b := range bs {
		switch {
		case b.Count == 0 || debias && b.Count < 2:
		case debias:
			sum += float64(b.Count) / n * (b.Gap*b.Gap - b.Accuracy*(1-b.Accuracy)/float64(b.Count-1))
		default:
			sum += float64(b.Count) / n * b.Gap * b.Gap
		}
	}
	return sum
}

func (bs Bins) reduce(f func(n float64) float64) Metric {
	n := bs.N()
	if n == 0 {
		return undefined(ReasonNoRows)
	}
	return defined(f(float64(n)))
}
