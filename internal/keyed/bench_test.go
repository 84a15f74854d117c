package keyed

import "testing"

// BenchmarkNormals fills the noise of one update of 64 states of 28x28, with Normals and, for comparison, with a
// stream's NormFloat64.
func BenchmarkNormals(b *testing.B) {
	const n, dim = 64, 784
	out := make([]float32, dim)
	src := New(1, "noise")
	b.Run("Normals", func(b *testing.B) {
		for b.Loop() {
			for i := range uint64(n) {
				src.Normals(out, i, 3)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*dim), "ns/number")
	})
	b.Run("NormFloat64", func(b *testing.B) {
		st := src.At(0, 0)
		for b.Loop() {
			for i := range uint64(n) {
				src.Seek(st, i, 3)
				for j := range out {
					out[j] = float32(st.NormFloat64())
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*dim), "ns/number")
	})
}
