package score

import (
	"math"
	"math/big"
)

const (
	sumChunks = 67      // 2144 bits: every float64 exponent, and room for 2^46 of the largest terms
	sumCarry  = 1 << 10 // additions after which a chunk could come near its 63 bits
)

// Sum adds float64 values without rounding and rounds once, in [Sum.Float64]. The result is therefore a function of
// the multiset of values: neither their order nor the way they were split over merged Sums changes a bit of it.
//
// It is a small superaccumulator (Neal, "Fast exact summation using small and large superaccumulators", 2015): a
// fixed-point number in units of 2^-1074 held in 32-bit digits, each with 31 bits of headroom so that carries can
// wait. A term costs a few nanoseconds and the accumulator some 560 bytes, whatever the number of terms; expansions
// grow and sorting needs all terms at hand, so that neither can be merged so cheaply.
//
// The zero value is an empty sum. Infinities follow IEEE rules: +Inf and -Inf together, or any NaN, give NaN.
type Sum struct {
	chunk          [sumChunks]int64
	pending        int // additions since the last carry
	posInf, negInf bool
	nan            bool
}

// Add adds x.
func (s *Sum) Add(x float64) {
	bits := math.Float64bits(x)
	exp := int(bits>>52) & 0x7ff
	mant := bits & (1<<52 - 1)
	switch exp {
	case 0x7ff:
		s.addSpecial(x)
		return
	case 0: // zero or subnormal: no implicit bit, same scale as exponent 1
	default:
		mant |= 1 << 52
		exp--
	}
	i, off := exp>>5, uint(exp&31)
	lo := int64((mant << off) & 0xffffffff)
	hi := int64(mant >> (32 - off))
	if bits>>63 != 0 {
		lo, hi = -lo, -hi
	}
	s.chunk[i] += lo
	s.chunk[i+1] += hi
	if s.pending++; s.pending >= sumCarry {
		s.carry()
	}
}

func (s *Sum) addSpecial(x float64) {
	switch {
	case math.IsInf(x, 1):
		s.posInf = true
	case math.IsInf(x, -1):
		s.negInf = true
	default:
		s.nan = true
	}
}

// carry brings every chunk but the top one, which keeps the sign, into [0, 2^32).
func (s *Sum) carry() {
	for i := range sumChunks - 1 {
		c := s.chunk[i] >> 32
		s.chunk[i] -= c << 32
		s.chunk[i+1] += c
	}
	s.pending = 0
}

// Merge adds all terms of o, which keeps its value. Merging in any order and grouping gives the same result.
func (s *Sum) Merge(o *Sum) {
	other := *o
	other.carry()
	s.carry()
	for i, c := range other.chunk {
		s.chunk[i] += c
	}
	s.carry()
	s.posInf = s.posInf || o.posInf
	s.negInf = s.negInf || o.negInf
	s.nan = s.nan || o.nan
}

// Float64 is the exact sum, rounded once to the nearest float64 (ties to even). An empty sum is 0.
func (s *Sum) Float64() float64 {
	switch {
	case s.nan || s.posInf && s.negInf:
		return math.NaN()
	case s.posInf:
		return math.Inf(1)
	case s.negInf:
		return math.Inf(-1)
	}
	t := *s
	t.carry()
	negative := t.chunk[sumChunks-1] < 0
	if negative {
		for i := range t.chunk {
			t.chunk[i] = -t.chunk[i]
		}
		t.carry()
	}
	var digits [4 * sumChunks]byte // big-endian
	for i, c := range t.chunk {
		at := 4 * (sumChunks - 1 - i)
		digits[at], digits[at+1], digits[at+2], digits[at+3] = byte(c>>24), byte(c>>16), byte(c>>8), byte(c)
	}
	exact := new(big.Float).SetPrec(32 * sumChunks).SetInt(new(big.Int).SetBytes(digits[:]))
	v, _ := exact.SetMantExp(exact, -1074).Float64()
	if negative {
		return -v
	}
	return v
}

// Mean is the sum divided by n, NaN for n = 0.
func (s *Sum) Mean(n int64) float64 {
	if n == 0 {
		return math.NaN()
	}
	return s.Float64() / float64(n)
}

// SumOf is the exact sum of values, rounded once.
func SumOf(values []float64) float64 {
	var s Sum
	for _, v := range values {
		s.Add(v)
	}
	return s.Float64()
}
