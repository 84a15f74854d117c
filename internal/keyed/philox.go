package keyed

import "math/bits"

// The multiplier and the number of rounds of Philox2x64 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers:
// as easy as 1, 2, 3", section 3.3; Random123). Six rounds pass BigCrush there; one more is taken for safety.
const (
	philoxMultiplier = 0xd2b74407b1ce6e93
	philoxRounds     = 7
)

// philoxBlock enciphers 128-bit counters under a key; no two counters of one key give the same pair of numbers, so that
// streams under one key never overlap. It fills out with the pairs of the counters (first, step), (first+1, step) and so on, by philoxRounds
// rounds. They are written out, since a loop costs as much as what is in it.
func philoxBlock(out []uint64, first, step, key uint64) {
	for i := 0; i+1 < len(out); i += 2 {
		k := key
		hi, a := bits.Mul64(philoxMultiplier, first+uint64(i/2))
		hi, b := bits.Mul64(philoxMultiplier, hi^k^step)
		k += golden
		hi, a = bits.Mul64(philoxMultiplier, hi^k^a)
		k += golden
		hi, b = bits.Mul64(philoxMultiplier, hi^k^b)
		k += golden
		hi, a = bits.Mul64(philoxMultiplier, hi^k^a)
		k += golden
		hi, b = bits.Mul64(philoxMultiplier, hi^k^b)
		k += golden
		hi, a = bits.Mul64(philoxMultiplier, hi^k^a)
		k += golden
		out[i], out[i+1] = hi^k^b, a
	}
}
