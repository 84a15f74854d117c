package score

import (
	"math"
	"slices"
)

// orderedKey maps a float64 that is not NaN to an integer of the same order; -0 and 0 share one key.
func orderedKey(v float64) uint64 {
	b := math.Float64bits(v + 0) // -0 + 0 = 0
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// keyValue undoes orderedKey.
func keyValue(k uint64) float64 {
	if k>>63 != 0 {
		return math.Float64frombits(k &^ (1 << 63))
	}
	return math.Float64frombits(^k)
}

const (
	radixBits   = 11
	radixSize   = 1 << radixBits
	radixPasses = (64 + radixBits - 1) / radixBits
	radixMin    = 4096 // below this many keys a comparison sort is as fast
)

// sortKeys sorts keys in ascending order: a least-significant-digit radix sort of 11-bit digits, which leaves out
// the digits that all keys share. It takes one buffer of the size of keys while it runs.
func sortKeys(keys []uint64) {
	if len(keys) < radixMin {
		slices.Sort(keys)
		return
	}
	counts := new([radixPasses][radixSize]int)
	sorted := true
	last := keys[0]
	for _, k := range keys {
		sorted = sorted && last <= k
		last = k
		for p := range counts {
			counts[p][k>>(p*radixBits)&(radixSize-1)]++
		}
	}
	if sorted {
		return
	}
	from, to := keys, make([]uint64, len(keys))
	for p := range counts {
		shift := p * radixBits
		if counts[p][keys[0]>>shift&(radixSize-1)] == len(keys) {
			continue
		}
		next := 0
		at := &counts[p]
		for d, c := range at {
			at[d] = next
			next += c
		}
		for _, k := range from {
			d := k >> shift & (radixSize - 1)
			to[at[d]] = k
			at[d]++
		}
		from, to = to, from
	}
	if &from[0] != &keys[0] {
		copy(keys, from)
	}
}
