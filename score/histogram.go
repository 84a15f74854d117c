package score

import (
	"errors"
	"math"
	"slices"
)

// Histogram counts scores in bins [Edges[i], Edges[i+1]), the last one closed on both sides.
type Histogram struct {
	Edges       []float64 // one more than Counts, strictly rising
	Counts      []int64
	Under, Over int64 // scores below the first and above the last edge, infinities among them
	Dropped     int64 // NaN
}

// SharedEdges are the bins+1 equally spaced edges over the finite scores of all groups together, so that their
// histograms can be laid over each other. tail in [0,0.5) leaves that share of all finite scores outside on each side,
// so that an outlier does not squeeze the rest into one bin; 0 takes in all. If all scores are equal the edges stand
// half a unit to each side. There are fewer edges when the range is only a few float64 wide, and none without a
// finite score. Errors: bins < 1, or tail outside its range.
func SharedEdges(bins int, tail float64, groups ...*Scores) ([]float64, error) {
	if bins < 1 || !(tail >= 0 && tail < 0.5) {
		return nil, errors.New("a histogram needs at least 1 bin, and a tail in [0, 0.5)")
	}
	lo, hi, ok := finiteRange(tail, groups)
	if !ok {
		return nil, nil
	}
	if lo == hi {
		half := max(0.5, math.Abs(lo)*1e-9)
		lo, hi = max(lo-half, -math.MaxFloat64), min(hi+half, math.MaxFloat64)
	}
	edges := make([]float64, bins+1)
	for i := range edges {
		f := float64(i) / float64(bins)
		edges[i] = min(max(lo*(1-f)+hi*f, lo), hi) // hi - lo may overflow
		if i > 0 {
			edges[i] = max(edges[i], edges[i-1])
		}
	}
	edges[0], edges[bins] = lo, hi
	return slices.Compact(edges), nil
}

// finiteRange is the range of all finite scores but a share tail of them at each end.
func finiteRange(tail float64, groups []*Scores) (lo, hi float64, ok bool) {
	var all [][]uint64
	total := 0
	for _, s := range groups {
		s.Sort()
		from, _ := slices.BinarySearch(s.keys, orderedKey(-math.MaxFloat64))
		to, _ := slices.BinarySearch(s.keys, orderedKey(math.Inf(1)))
		all = append(all, s.keys[from:to])
		total += to - from
	}
	if total == 0 {
		return 0, 0, false
	}
	outside := int(tail * float64(total))
	return keyValue(kthKey(all, outside)), keyValue(kthKey(all, total-1-outside)), true
}

// kthKey is the key of rank k, from 0, in the union of sorted groups, by bisection on the key itself.
func kthKey(groups [][]uint64, k int) uint64 {
	lo, hi := uint64(0), uint64(math.MaxUint64)
	for lo < hi {
		mid := lo + (hi-lo)/2
		upTo := 0
		for _, g := range groups {
			at, found := slices.BinarySearch(g, mid)
			if found {
				at = blockEnd(g, at)
			}
			upTo += at
		}
		if upTo > k {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// Histogram counts the scores between edges, which must rise strictly; nil edges give a Histogram without bins.
func (s *Scores) Histogram(edges []float64) Histogram {
	h := Histogram{Edges: edges, Dropped: s.dropped}
	if len(edges) < 2 {
		return h
	}
	last := len(edges) - 1
	h.Counts = make([]int64, last)
	h.Under = s.Below(edges[0])
	before := h.Under
	for i := range h.Counts {
		upTo := s.Below(edges[i+1])
		if i+1 == last {
			upTo = s.upTo(edges[last])
		}
		h.Counts[i] = upTo - before
		before = upTo
	}
	h.Over = s.Len() - before
	return h
}

// upTo is the number of scores <= t, which is finite.
func (s *Scores) upTo(t float64) int64 { return s.Below(math.Nextafter(t, math.Inf(1))) }
