package score

import (
	"errors"
	"math"
	"slices"
	"sort"
)

// Scores is a multiset of scores of one group of rows, at 8 bytes a row. NaN is counted and left out; infinities are
// kept. The zero value is empty. Methods that read it sort it first, in place, so a Scores must not be used by two
// goroutines at once, unless [Scores.Sort] came first and nothing is added.
type Scores struct {
	keys    []uint64
	sorted  bool
	dropped int64
}

// NewScores is the multiset of values.
func NewScores(values []float64) *Scores {
	s := &Scores{keys: make([]uint64, 0, len(values))}
	s.Add(values...)
	return s
}

// Add adds values.
func (s *Scores) Add(values ...float64) {
	for _, v := range values {
		if v != v {
			s.dropped++
			continue
		}
		s.keys = append(s.keys, orderedKey(v))
	}
	s.sorted = false
}

// Merge adds everything in o, which is left as it is.
func (s *Scores) Merge(o *Scores) {
	s.keys = append(s.keys, o.keys...)
	s.dropped += o.dropped
	s.sorted = false
}

// Len is the number of scores, without NaN.
func (s *Scores) Len() int64 { return int64(len(s.keys)) }

// Dropped is the number of NaN that were added.
func (s *Scores) Dropped() int64 { return s.dropped }

// Sort sorts now what would be sorted at the first use.
func (s *Scores) Sort() {
	if !s.sorted {
		sortKeys(s.keys)
		s.sorted = true
	}
}

// Values returns the scores in ascending order.
func (s *Scores) Values() []float64 {
	s.Sort()
	out := make([]float64, len(s.keys))
	for i, k := range s.keys {
		out[i] = keyValue(k)
	}
	return out
}

// Below is the number of scores < t.
func (s *Scores) Below(t float64) int64 {
	if t != t {
		return 0
	}
	s.Sort()
	at, _ := slices.BinarySearch(s.keys, orderedKey(t))
	return int64(at)
}

// Flagged is the number of scores >= t.
func (s *Scores) Flagged(t float64) int64 {
	if t != t {
		return 0
	}
	return s.Len() - s.Below(t)
}

var errShare = errors.New("a share must be in (0,1], with at most six decimals")

const shareUnit = 1_000_000

// rowsOf is the smallest k with k/n >= share, in integers of a millionth: 0.95 means 95 of 100 and not the float64
// just below it.
func rowsOf(share float64, n int64) (int64, error) {
	ppm := math.Round(share * shareUnit)
	if !(ppm >= 1 && ppm <= shareUnit) {
		return 0, errShare
	}
	whole, part := n/shareUnit, n%shareUnit // in two steps, which cannot overflow
	return whole*int64(ppm) + (part*int64(ppm)+shareUnit-1)/shareUnit, nil
}

// Threshold is a cut of a detector, chosen on ID rows: rows with s >= Value are flagged as OOD.
type Threshold struct {
	Value      float64 // NaN when undefined
	Acceptance float64 // wanted share of ID rows below Value
	Reached    float64 // share of ID rows really below Value, >= Acceptance; NaN when undefined
	Accepted   int64   // rows below Value
	N          int64
	Reason     string // why Value is undefined, "" when it is defined
}

// Threshold returns the smallest t such that at least the wanted share of these ID scores has s < t. Equal scores
// fall on the same side, so that more may be accepted than was wanted: see Reached. The threshold is the float64
// next above the score that it must accept. It is undefined (ReasonUnreachable) when that score is +Inf. acceptance
// is in (0,1], read to six decimals; anything else is an error.
func (s *Scores) Threshold(acceptance float64) (Threshold, error) {
	t := Threshold{Value: nan, Acceptance: acceptance, Reached: nan, N: s.Len()}
	k, err := rowsOf(acceptance, s.Len())
	if err != nil {
		return t, err
	}
	if t.N == 0 {
		t.Reason = ReasonNoRows
		return t, nil
	}
	s.Sort()
	v := keyValue(s.keys[k-1])
	if math.IsInf(v, 1) {
		t.Reason = ReasonUnreachable
		return t, nil
	}
	t.Value = math.Nextafter(v, math.Inf(1))
	t.Accepted = s.Below(t.Value)
	t.Reached = float64(t.Accepted) / float64(t.N)
	return t, nil
}

// blockEnd is the end of the run of keys equal to keys[i].
func blockEnd(keys []uint64, i int) int {
	k := keys[i]
	i++
	for step := 1; ; step *= 2 { // galloping: constant scores must not cost a comparison each
		if i >= len(keys) || keys[i] != k {
			return i
		}
		if j := i + step; j < len(keys) && keys[j] == k {
			i = j
			continue
		}
		rest := keys[i:min(i+step, len(keys))]
		return i + sort.Search(len(rest), func(n int) bool { return rest[n] != k })
	}
}
