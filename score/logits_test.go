package score

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestArgmax(t *testing.T) {
	inf, nan32 := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		z    []float32
		pred int
		tie  bool
	}{
		{nil, -1, false},
		{[]float32{1}, 0, false},
		{[]float32{1, 3, 2}, 1, false},
		{[]float32{3, 1, 3}, 0, true},
		{[]float32{1, 1, 2}, 2, false},
		{[]float32{-inf, -inf}, 0, true},
		{[]float32{inf, 1, inf}, 0, true},
		{[]float32{nan32, 1}, -1, false},
		{[]float32{1, nan32}, -1, false},
		{[]float32{2, nan32, 3}, -1, false},
		{[]float32{nan32}, -1, false},
	} {
		if pred, tie := Argmax(c.z); pred != c.pred || tie != c.tie {
			t.Errorf("Argmax(%v) = %d, %v, want %d, %v", c.z, pred, tie, c.pred, c.tie)
		}
	}
}

func TestLogSumExpLimits(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		z    []float32
		want float64
	}{
		{[]float32{-inf, -inf}, math.Inf(-1)},
		{[]float32{-inf, 5}, 5},
		{[]float32{inf, 5}, math.Inf(1)},
		{[]float32{float32(math.NaN()), 5}, nan},
		{nil, nan},
		{[]float32{-88, -88}, -88 + math.Ln2},
	} {
		if got := LogSumExp(c.z); got != c.want && !(got != got && c.want != c.want) {
			t.Errorf("LogSumExp(%v) = %v, want %v", c.z, got, c.want)
		}
	}
	if e := Energy([]float32{-inf, -inf}); !math.IsInf(e, 1) {
		t.Errorf("energy of all -Inf is %v", e)
	}
}

func TestDescribe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := rapid.SliceOfN(rapid.Float32Range(-60, 60), 2, 12).Draw(t, "logits")
		temperature := rapid.Float64Range(0.5, 5).Draw(t, "temperature")
		p := make([]float64, len(z))
		r := DescribeAt(z, temperature, p)
		total, first, second, entropy := 0.0, 0.0, 0.0, 0.0
		for _, v := range z {
			total += math.Exp(float64(v) / temperature)
		}
		check := func(name string, got, want float64) {
			if math.Abs(got-want) > 1e-11 {
				t.Fatalf("%s of %v is %v, want %v", name, z, got, want)
			}
		}
		for k, v := range z {
			q := math.Exp(float64(v)/temperature) / total
			check("softmax", p[k], q)
			if q > first {
				first, second = q, first
			} else {
				second = max(second, q)
			}
			if q > 0 {
				entropy -= q * math.Log(q)
			}
		}
		check("LSE", r.LSE, math.Log(total))
		check("confidence", r.Confidence, first)
		check("margin", r.Margin, first-second)
		check("entropy", r.Entropy, entropy)
		check("sum", SumOf(p), 1)
		if p[r.Pred] != r.Confidence || r.Entropy < 0 || (r.Tie && r.Margin != 0) {
			t.Fatalf("%+v of %v", r, z)
		}
		check("NLL", NLLAt(z, int32(r.Pred), temperature), -math.Log(first))
		check("energy", -LogSumExpAt(z, temperature), -r.LSE)
	})
}

func TestWilson(t *testing.T) {
	for _, c := range []struct {
		k, n   int64
		lo, hi float64 // the last row: Newcombe 1998, table I
	}{{0, 10, 0, 0.277533}, {10, 10, 0.722467, 1}, {5, 10, 0.236593, 0.763407}, {81, 263, 0.255289, 0.366210}} {
		lo, hi := Wilson(c.k, c.n)
		near(t, "low", lo, c.lo)
		near(t, "high", hi, c.hi)
	}
}
