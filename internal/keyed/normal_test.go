package keyed

import (
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// The known answers that the authors of Philox publish with Random123.
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = math.MaxUint64
	for _, c := range []struct {
		rounds         int
		c0, c1, key    uint64
		want0, want1   uint64
		alsoWrittenOut bool
	}{
		{7, 0, 0, 0, 0xb41da69fbfefc666, 0x511e9ce1a5534056, true},
		{7, ones, ones, ones, 0xa4696cc04462015d, 0x724782dae17169e9, true},
		{7, 0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x98ed1534392bf372, 0x67528b1568882fd5, true},
		{10, 0, 0, 0, 0xca00a0459843d731, 0x66c24222c9a845b5, false},
		{10, 0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x0a5e742c2997341c, 0xb0f883d38000de5d, false},
	} {
		if a, b := philox(c.c0, c.c1, c.key, c.rounds); a != c.want0 || b != c.want1 {
			t.Errorf("%d rounds of (%x, %x) under %x: %x %x, want %x %x", c.rounds, c.c0, c.c1, c.key, a, b, c.want0, c.want1)
		}
		var two [2]uint64
		if philoxBlock(two[:], c.c0, c.c1, c.key); c.alsoWrittenOut && two != [2]uint64{c.want0, c.want1} {
			t.Errorf("written out: (%x, %x) under %x gives %x, want %x %x", c.c0, c.c1, c.key, two, c.want0, c.want1)
		}
	}
}

// A change of these numbers, here or on another processor, changes every sample of the program for a given seed.
func TestNormalsAreFixed(t *testing.T) {
	out := make([]float32, 1<<20)
	New(1, "noise").Normals(out, 2, 3)
	want := []float32{0.1611925, 0.009064818, 0.31418043, -0.82426953, -1.2707038}
	if !slices.Equal(out[:5], want) {
		t.Errorf("first numbers %v, want %v", out[:5], want)
	}
	h := fnv.New64a()
	for _, c := range normalTable {
		for _, v := range []float32{c.value, c.slope, c.at} {
			b := math.Float32bits(v)
			h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
		}
	}
	for _, v := range out {
		b := math.Float32bits(v)
		h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
	}
	if got := h.Sum64(); got != 0x7f6f3fd281d5356f {
		t.Errorf("hash of the table and of 2^20 numbers %#x, want 0x7f6f3fd281d5356f", got)
	}
}

func TestNormalsDependOnTheirPlaceAlone(t *testing.T) {
	src := New(5, "noise")
	long := make([]float32, 1003)
	src.Normals(long, 9, 4)
	for _, n := range []int{0, 1, 2, 3, 4, 5, 127, 128, 129, 130, 256, 1000} {
		short := make([]float32, n)
		src.Normals(short, 9, 4)
		if !slices.Equal(short, long[:n]) {
			t.Errorf("the first %d of %d numbers differ from %d numbers", n, len(long), n)
		}
	}
}

// The function of the 32 bits against the quantile function of another library, over all octaves and the ends.
func TestNormalIsTheInverseDistributionFunction(t *testing.T) {
	check := func(u uint32) {
		p := float64(u|1) / (1 << 32)
		want := -distuv.UnitNormal.Quantile(p)
		if got := float64(normalTable.normal(u)); math.Abs(got-want) > 2e-6 {
			t.Fatalf("bits %#x: %v, want %v", u, got, want)
		}
		if up, down := normalTable.normal(u), normalTable.normal(u|1<<31); u < 1<<30 && up != -down {
			t.Fatalf("bits %#x: %v with the sign, %v without", u, down, up)
		}
	}
	for e := range 31 {
		for k := range 1000 {
			check(uint32((uint64(1)<<e + uint64(k)<<e/1000) & 0x7fffffff))
		}
	}
	check(0)
	check(1<<31 - 1)
}

// many draws from streams of many indices and steps, as chains do.
func many(n int) []float32 {
	out := make([]float32, n)
	src := New(11, "noise")
	for i := 0; i*784 < n; i++ {
		src.Normals(out[i*784:min((i+1)*784, n)], uint64(i/20), uint64(i%20))
	}
	return out
}

// With n draws the k-th raw moment has standard error sqrt((m_2k - m_k^2) / n), m_2k = 1 3 5 ... (2k-1).
func TestMomentsOfNormals(t *testing.T) {
	const n = 4_000_000
	var sum [5]float64
	for _, v := range many(n) {
		x := float64(v)
		for k := 1; k <= 4; k++ {
			sum[k] += math.Pow(x, float64(k))
		}
	}
	moments := []float64{1, 0, 1, 0, 3, 0, 15, 0, 105}
	for k := 1; k <= 4; k++ {
		got, want := sum[k]/n, moments[k]
		if se := math.Sqrt((moments[2*k] - want*want) / n); math.Abs(got-want) > 4*se {
			t.Errorf("moment %d is %.5f, want %.5f within %.5f", k, got, want, 4*se)
		}
	}
}

// Kolmogorov and Smirnov: sqrt(n) D exceeds 1.95 with probability 0.001.
func TestDistributionOfNormals(t *testing.T) {
	const n = 1_000_000
	x := many(n)
	slices.Sort(x)
	var d float64
	for i, v := range x {
		f := distuv.UnitNormal.CDF(float64(v))
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	if d*math.Sqrt(n) > 1.95 {
		t.Errorf("largest distance to the normal distribution function %.6f, want at most %.6f", d, 1.95/math.Sqrt(n))
	}
}

// The number of draws beyond z is Poisson with mean n p.
func TestTailsOfNormals(t *testing.T) {
	const n = 20_000_000
	var above, below [6]int
	for _, v := range many(n) {
		for z := 2; z <= 5; z++ {
			if v > float32(z) {
				above[z]++
			} else if v < -float32(z) {
				below[z]++
			}
		}
	}
	for z := 2; z <= 5; z++ {
		want := n * distuv.UnitNormal.Survival(float64(z))
		for side, got := range map[string]int{"above": above[z], "below": below[z]} {
			if math.Abs(float64(got)-want) > 4*math.Sqrt(want)+1 {
				t.Errorf("%d draws %s %d, want %.1f within %.1f", got, side, z, want, 4*math.Sqrt(want)+1)
			}
		}
	}
}

// Streams of neighbouring indices and steps, of two purposes, and neighbours within a stream must not be correlated.
func TestNormalsOfDifferentKeysAreIndependent(t *testing.T) {
	const streams, n = 500, 784
	src, other := New(3, "noise"), New(3, "order")
	a, b := make([]float32, n), make([]float32, n)
	for _, c := range []struct {
		name string
		draw func(i uint64)
	}{
		{"next index", func(i uint64) { src.Normals(b, i+1, 0) }},
		{"next step", func(i uint64) { src.Normals(b, i, 1) }},
		{"index and step exchanged", func(i uint64) { src.Normals(b, 0, i+1) }},
		{"other purpose", func(i uint64) { other.Normals(b, i, 0) }},
		{"next number", func(i uint64) { copy(b, a[1:]); b[n-1] = 0 }},
		{"next block", func(i uint64) { copy(b, a[4:]); clear(b[n-4:]) }},
	} {
		var product, squares float64
		for i := range uint64(streams) {
			src.Normals(a, i, 0)
			c.draw(i)
			for j := range a {
				x, y := float64(a[j]), float64(b[j])
				product += x * y
				squares += (x*x - 1) * (y*y - 1) / 2
			}
		}
		limit := 4 / math.Sqrt(streams*n)
		if r := product / (streams * n); math.Abs(r) > limit {
			t.Errorf("%s: correlation %.5f, want within %.5f", c.name, r, limit)
		}
		if r := squares / (streams * n); math.Abs(r) > limit {
			t.Errorf("%s: correlation of squares %.5f, want within %.5f", c.name, r, limit)
		}
	}
}

// The two numbers of a pair of bits must be independent too: uniform on the square of their probabilities. Chi-squared
// with 255 degrees of freedom exceeds 340 with probability 0.0003.
func TestPairsOfNormalsFillTheSquare(t *testing.T) {
	var cells [16][16]int
	x := many(2_000_000)
	for i := 0; i < len(x); i += 2 {
		cells[int(16*distuv.UnitNormal.CDF(float64(x[i])))][int(16*distuv.UnitNormal.CDF(float64(x[i+1])))]++
	}
	want := float64(len(x)/2) / 256
	var chi float64
	for _, row := range cells {
		for _, n := range row {
			chi += (float64(n) - want) * (float64(n) - want) / want
		}
	}
	if chi > 340 {
		t.Errorf("chi-squared of 16x16 cells %.1f, want about 255", chi)
	}
}

// philox is philoxBlock for one counter, as a loop over any number of rounds.
func philox(c0, c1, key uint64, rounds int) (uint64, uint64) {
	for range rounds {
		hi, lo := bits.Mul64(philoxMultiplier, c0)
		c0, c1 = hi^key^c1, lo
		key += golden
	}
	return c0, c1
}
