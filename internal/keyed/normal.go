package keyed

import "math"

// Normals fills out with independent N(0, 1) numbers of the stream (index, step). Number j depends on the stream and on
// j alone, so that a longer slice begins with the numbers of a shorter one. It is another stream than that of At. Any
// number of goroutines may call it at once.
//
// Each number is the inverse of the normal distribution function at 32 random bits, without rejection: one bit of sign
// and 31 of size, so that none is beyond 6.3. The bits are Philox2x64 of the counter (j/4, step) under the key (source,
// index). All arithmetic is rounded to float32 after each operation, so that the numbers are the same on every processor.
func (s Source) Normals(out []float32, index, step uint64) {
	key := mix(s.key ^ mix(index+golden))
	var block [64]uint64
	for at := 0; at < len(out); at += 2 * len(block) {
		some := out[at:min(at+2*len(block), len(out))]
		words := block[:(len(some)+3)/4*2]
		philoxBlock(words, uint64(at/4), step, key)
		normals(some, words)
	}
}

// normals turns random words into normal numbers, two a word, the lower half first.
func normals(out []float32, words []uint64) {
	table := &normalTable
	for i := 0; i+1 < len(out); i += 2 {
		w := words[i/2]
		out[i], out[i+1] = table.normal(uint32(w)), table.normal(uint32(w>>32))
	}
	if n := len(out); n%2 == 1 {
		out[n-1] = table.normal(uint32(words[n/2]))
	}
}

// chord is a piece of the quantile function: value + (u - at) slope for u from at on.
type chord struct{ value, slope, at, _ float32 }

// chords are the upper half of the quantile function by u in [1, 2^31], where u / 2^32 is the probability of a larger
// number. Each octave [2^e, 2^(e+1)) of u is cut into equal segments, and a number lies on the chord of its segment, as
// in Cheung, Lee, Luk and Villasenor (2007), "Hardware generation of arbitrary random number distributions from
// uniform distributions via the inversion method". An octave and its segment are the exponent and the first bits of u
// as a float32, so that these bits are the index. The error is below 2e-6.
type chords [octaves << segmentBits]chord

const (
	segmentBits = 7
	octaves     = 32
	indexShift  = 23 - segmentBits   // of the bits of a float32
	firstIndex  = 127 << segmentBits // of 1.0
)

var normalTable = newChords()

func (t *chords) normal(r uint32) float32 {
	u := float32(int32(r&0x7fffffff | 1))
	c := &t[(math.Float32bits(u)>>indexShift-firstIndex)%(octaves<<segmentBits)]
	v := c.value + float32((u-c.at)*c.slope)
	return math.Float32frombits(math.Float32bits(v) | r&0x80000000)
}

// newChords rounds the table to 21 bits or fewer, so that the last bits of the float64 functions, which differ between
// processors, do not reach it.
func newChords() chords {
	var t chords
	for i := range 31 << segmentBits {
		at := math.Float32frombits(uint32(i+firstIndex) << indexShift)
		width := math.Ldexp(1, i>>segmentBits-segmentBits)
		from, to := upperQuantile(float64(at)/(1<<32)), upperQuantile((float64(at)+width)/(1<<32))
		// The function is convex and the chord above it: half of the largest distance is taken off.
		middle := upperQuantile((float64(at) + width/2) / (1 << 32))
		value := from - ((from+to)/2-middle)/2
		frac, exp := math.Frexp((to - from) / width)
		t[i] = chord{
			value: float32(math.Round(value*(1<<21)) / (1 << 21)),
			slope: float32(math.Ldexp(math.Round(frac*(1<<20)), exp-20)),
			at:    at,
		}
	}
	t[31<<segmentBits] = chord{at: 1 << 31} // probability 1/2
	return t
}

// upperQuantile is the number that a standard normal exceeds with probability p in (0, 1/2]: the approximation 26.2.23
// of Abramowitz and Stegun, made exact by Halley's iteration on the complementary error function.
func upperQuantile(p float64) float64 {
	t := math.Sqrt(-2 * math.Log(p))
	z := t - (2.515517+t*(0.802853+t*0.010328))/(1+t*(1.432788+t*(0.189269+t*0.001308)))
	for range 3 {
		f := (math.Erfc(z/math.Sqrt2)/2 - p) * math.Sqrt(2*math.Pi) * math.Exp(z*z/2)
		z += f / (1 + z*f/2)
	}
	return z
}
