package keyed

import (
	"math"
	"testing"
)

// The first numbers of some streams. A change here changes every output of the program for a given seed.
func TestStreamsAreFixed(t *testing.T) {
	for _, c := range []struct {
		seed        uint64
		purpose     string
		index, step uint64
		want        uint64
	}{
		{0, "", 0, 0, 0x95fa5b089f9270dd},
		{1, "noise", 0, 0, 0x64df3b952d561745},
		{1, "noise", 1, 0, 0x47da33bd1f212c62},
		{1, "noise", 0, 1, 0x860faddb46321451},
		{1, "order", 0, 0, 0xf869cc508a3080d3},
	} {
		got := New(c.seed, c.purpose).At(c.index, c.step).Uint64()
		if got != c.want {
			t.Errorf("New(%d, %q).At(%d, %d): first number %#x, want %#x", c.seed, c.purpose, c.index, c.step, got, c.want)
		}
	}
}

func TestSeekEqualsAt(t *testing.T) {
	src := New(7, "noise")
	st := src.At(0, 0)
	for i := uint64(0); i < 50; i++ {
		st.NormFloat64()
		src.Seek(st, i, i*3)
		fresh := src.At(i, i*3)
		for j := 0; j < 20; j++ {
			if a, b := st.NormFloat64(), fresh.NormFloat64(); a != b {
				t.Fatalf("stream (%d, %d), number %d: %v after Seek, %v from At", i, i*3, j, a, b)
			}
		}
	}
}

// Neighbouring indices and steps must not be correlated: chains would move together.
func TestNeighboursAreUncorrelated(t *testing.T) {
	src := New(3, "noise")
	const n = 20000
	for _, d := range []struct{ index, step uint64 }{{1, 0}, {0, 1}, {1, 1}} {
		var sum, mean, sq float64
		for i := uint64(0); i < n; i++ {
			a := src.At(i, 0).NormFloat64()
			b := src.At(i+d.index, d.step).NormFloat64()
			sum, mean, sq = sum+a*b, mean+a, sq+a*a
		}
		if r := sum / n; math.Abs(r) > 5/math.Sqrt(n) {
			t.Errorf("correlation with the stream at +(%d, %d) is %.4f", d.index, d.step, r)
		}
		if m := mean / n; math.Abs(m) > 5/math.Sqrt(n) {
			t.Errorf("mean of first normals %.4f, want 0", m)
		}
		if v := sq / n; math.Abs(v-1) > 0.06 {
			t.Errorf("variance of first normals %.4f, want 1", v)
		}
	}
}
