package report

import (
	"math"
	"strconv"
)

// scale maps values to pixels. A logarithmic scale maps what is not positive to its lower end.
type scale struct {
	lo, hi   float64 // values
	from, to float64 // pixels
	log      bool
}

func (s scale) at(v float64) float64 {
	if s.log {
		lo, hi := math.Log10(s.lo), math.Log10(s.hi)
		return s.from + (math.Log10(max(v, s.lo))-lo)/(hi-lo)*(s.to-s.from)
	}
	return s.from + (v-s.lo)/(s.hi-s.lo)*(s.to-s.from)
}

func (s scale) all(vs []float64) []float64 {
	out := make([]float64, len(vs))
	for i, v := range vs {
		out[i] = s.at(v)
	}
	return out
}

// around is a linear scale that takes in every finite value and ends on round numbers.
func around(values ...[]float64) scale {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, vs := range values {
		for _, v := range vs {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if lo > hi {
		lo, hi = 0, 1
	}
	if lo == hi {
		pad := math.Abs(lo) * 0.1
		if pad == 0 {
			pad = 0.5
		}
		lo, hi = lo-pad, hi+pad
	}
	step := roundStep((hi - lo) / 4)
	return scale{lo: math.Floor(lo/step) * step, hi: math.Ceil(hi/step) * step}
}

// roundStep is the smallest of 1, 2, 2.5 and 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// tick is a value with its label.
type tick struct {
	value float64
	label string
}

// ticks are round values in the scale, about n of them.
func (s scale) ticks(n int) []tick {
	if s.log {
		return s.powers()
	}
	step := roundStep((s.hi - s.lo) / float64(n))
	decimals := 0
	for d := step; decimals < 6 && math.Abs(d-math.Round(d)) > 1e-9*max(1, math.Abs(d)); decimals++ {
		d *= 10
	}
	var out []tick
	for i := math.Ceil(s.lo/step - 1e-9); i*step <= s.hi+step*1e-9; i++ {
		out = append(out, tick{i * step, tickLabel(i*step, decimals)})
	}
	return out
}

// powers are the powers of ten in a logarithmic scale, thinned to at most five.
func (s scale) powers() []tick {
	first, last := int(math.Ceil(math.Log10(s.lo)-1e-9)), int(math.Floor(math.Log10(s.hi)+1e-9))
	every := max(1, (last-first+4)/5)
	var out []tick
	for e := first; e <= last; e += every {
		v := math.Pow(10, float64(e))
		label := "10" + superscript(e)
		if e >= -3 && e <= 3 {
			label = minus(strconv.FormatFloat(v, 'g', -1, 64))
		}
		out = append(out, tick{v, label})
	}
	return out
}

func superscript(e int) string {
	out := ""
	for _, r := range strconv.Itoa(e) {
		if r == '-' {
			out += "⁻"
			continue
		}
		out += string([]rune("⁰¹²³⁴⁵⁶⁷⁸⁹")[r-'0'])
	}
	return out
}

func tickLabel(v float64, decimals int) string {
	switch a := math.Abs(v); {
	case a < 1e-12:
		return "0"
	case a >= 1e6:
		return fixed(v/1e6, shortDecimals(v/1e6)) + "M"
	case a >= 1e4:
		return fixed(v/1e3, shortDecimals(v/1e3)) + "k"
	}
	return fixed(v, decimals)
}

func shortDecimals(v float64) int {
	if v == math.Round(v) {
		return 0
	}
	return 1
}
