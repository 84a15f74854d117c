package score

import (
	"math/rand/v2"
	"testing"
)

func normals(n int, mean float64, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 0))
	v := make([]float64, n)
	for i := range v {
		v[i] = r.NormFloat64() + mean
	}
	return v
}

// BenchmarkRanking compares a million scores: AUROC with DeLong's interval, AP both ways, FPR@95 both ways.
func BenchmarkRanking(b *testing.B) {
	id, ood := normals(500_000, 0, 1), normals(500_000, 1, 2)
	b.ReportAllocs()
	for b.Loop() {
		r := NewRanking(id, ood)
		if !r.AUROC().Defined || !r.FPRAtTPR(0.95, PositiveOOD).Defined {
			b.Fatal("undefined")
		}
	}
}

func BenchmarkROC(b *testing.B) {
	r := NewRanking(normals(500_000, 0, 1), normals(500_000, 1, 2))
	for b.Loop() {
		r.ROC(1000)
	}
}

func BenchmarkSum(b *testing.B) {
	v := normals(1_000_000, 0, 1)
	b.SetBytes(8_000_000)
	for b.Loop() {
		SumOf(v)
	}
}

func BenchmarkDescribe(b *testing.B) {
	logits, _ := rowsOfLogits(1000, 10, 1, 1)
	p := make([]float64, 10)
	for b.Loop() {
		for i := range 1000 {
			Describe(logits[10*i:10*i+10], p)
		}
	}
}

func BenchmarkCalibration(b *testing.B) {
	logits, labels := rowsOfLogits(1000, 10, 1, 1)
	for b.Loop() {
		c := NewCalibration(10, 15, 1)
		for i, y := range labels {
			c.Add(logits[10*i:10*i+10], y)
		}
	}
}

func BenchmarkFitTemperature(b *testing.B) {
	logits, labels := rowsOfLogits(10_000, 10, 2, 1)
	for b.Loop() {
		if _, err := FitTemperature(logits, 10, labels); err != nil {
			b.Fatal(err)
		}
	}
}
