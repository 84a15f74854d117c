package score

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSumIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64(), 0, 50).Draw(t, "values")
		v = slices.DeleteFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
		exact := new(big.Float).SetPrec(4096)
		for _, x := range v {
			exact.Add(exact, new(big.Float).SetFloat64(x))
		}
		want, _ := exact.Float64()
		if got := SumOf(v); got != want {
			t.Fatalf("sum %v, want %v", got, want)
		}
	})
}

func TestSumCarries(t *testing.T) {
	for _, x := range []float64{1 << 52, -(1 << 52), math.MaxFloat64 / 4096, 5e-324, 1.0 / 3, -1.0 / 3} {
		var s Sum
		const n = 4096
		for range n {
			s.Add(x)
		}
		if got := s.Float64(); got != x*n { // a power of two: exact
			t.Errorf("%d times %v is %v, want %v", n, x, got, x*n)
		}
	}
	if got := SumOf([]float64{math.MaxFloat64, math.MaxFloat64, -math.MaxFloat64}); got != math.MaxFloat64 {
		t.Errorf("sum through an overflow is %v", got)
	}
	inf := math.Inf(1)
	for _, c := range []struct {
		v    []float64
		want float64
	}{{[]float64{1, inf}, inf}, {[]float64{-inf, 1}, -inf}, {[]float64{inf, -inf}, nan}, {[]float64{1, nan}, nan}, {nil, 0}} {
		if got := SumOf(c.v); !sameBits(got, c.want) && !(got != got && c.want != c.want) {
			t.Errorf("sum of %v is %v, want %v", c.v, got, c.want)
		}
	}
}

func TestSumMergesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(-1e300, 1e300), 1, 60).Draw(t, "values")
		want := SumOf(v)
		v = shuffled(v, rapid.Uint64().Draw(t, "order"))
		parts := make([]Sum, rapid.IntRange(1, 5).Draw(t, "parts"))
		for i, x := range v {
			parts[i%len(parts)].Add(x)
		}
		var all Sum
		for i := range parts {
			all.Merge(&parts[len(parts)-1-i])
		}
		if !sameBits(all.Float64(), want) {
			t.Fatalf("merged %v, want %v", all.Float64(), want)
		}
	})
}

func TestSortKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 100, radixMin, radixMin + 1, 50_000} {
		for name, draw := range map[string]func() float64{
			"normal":   r.NormFloat64,
			"any bits": func() float64 { return math.Float64frombits(r.Uint64()) },
			"few":      func() float64 { return float64(r.IntN(5) - 2) },
			"equal":    func() float64 { return 1 },
		} {
			s := new(Scores)
			var want []float64
			for range n {
				v := draw()
				s.Add(v)
				if v == v {
					want = append(want, v+0)
				}
			}
			slices.Sort(want)
			if got := s.Values(); !slices.Equal(got, want) {
				t.Errorf("%d %s values are not sorted", n, name)
			}
			if s.Len()+s.Dropped() != int64(n) {
				t.Errorf("%d %s values: %d kept, %d dropped", n, name, s.Len(), s.Dropped())
			}
		}
	}
}

// bruteAUROC counts pairs.
func bruteAUROC(id, ood []float64) float64 {
	twice := 0
	for _, o := range ood {
		for _, i := range id {
			switch {
			case o > i:
				twice += 2
			case o == i:
				twice++
			}
		}
	}
	return float64(twice) / float64(2*len(id)*len(ood))
}

// bruteSweep tries every score as a threshold and returns AP of OOD, FPR at 95 % TPR and the smallest error.
func bruteSweep(id, ood []float64) (ap, fpr, minError float64) {
	cuts := append(slices.Clone(id), ood...)
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	slices.Reverse(cuts)
	count := func(v []float64, t float64) (n int) {
		for _, x := range v {
			if x >= t {
				n++
			}
		}
		return n
	}
	fpr, minError = -1, 0.5
	before := 0
	for _, t := range cuts {
		tp, fp := count(ood, t), count(id, t)
		ap += float64(tp-before) / float64(len(ood)) * float64(tp) / float64(tp+fp)
		before = tp
		if fpr < 0 && 100*tp >= 95*len(ood) {
			fpr = float64(fp) / float64(len(id))
		}
		minError = min(minError, (float64(len(ood)-tp)/float64(len(ood))+float64(fp)/float64(len(id)))/2)
	}
	return ap, fpr, minError
}

func TestRankingAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, ood := anyScores(1).Draw(t, "id"), anyScores(1).Draw(t, "ood")
		r := NewRanking(id, ood)
		if got, want := r.AUROC().Value, bruteAUROC(id, ood); got != want {
			t.Fatalf("AUROC %v, want %v", got, want)
		}
		check := func(name string, got, want float64) {
			if math.Abs(got-want) > 1e-12 {
				t.Fatalf("%s %v, want %v", name, got, want)
			}
		}
		ap, fpr, minError := bruteSweep(id, ood)
		check("AP out", r.AveragePrecision(PositiveOOD).Value, ap)
		check("FPR OOD", r.FPRAtTPR(0.95, PositiveOOD).Value, fpr)
		check("min error", r.MinDetectionError().Value, minError)
		apIn, fprIn, _ := bruteSweep(negated(ood...), negated(id...))
		check("AP in", r.AveragePrecision(PositiveID).Value, apIn)
		check("FPR ID", r.FPRAtTPR(0.95, PositiveID).Value, fprIn)
	})
}

func TestDeLongAgainstPlacements(t *testing.T) {
	variance := func(v []float64) float64 {
		mean, sq := SumOf(v)/float64(len(v)), 0.0
		for _, x := range v {
			sq += (x - mean) * (x - mean)
		}
		return sq / float64(len(v)-1) / float64(len(v))
	}
	rapid.Check(t, func(t *rapid.T) {
		id, ood := anyScores(2).Draw(t, "id"), anyScores(2).Draw(t, "ood")
		se, reason := NewRanking(id, ood).DeLong()
		if reason != "" {
			return
		}
		var vo, vi []float64
		for _, x := range ood {
			vo = append(vo, bruteAUROC(id, []float64{x}))
		}
		for _, x := range id {
			vi = append(vi, bruteAUROC([]float64{x}, ood))
		}
		if want := math.Sqrt(variance(vo) + variance(vi)); math.Abs(se-want) > 1e-9 {
			t.Fatalf("standard error %v, want %v", se, want)
		}
	})
}

func TestRankingIsAFunctionOfTheMultiset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, ood := anyScores(1).Draw(t, "id"), anyScores(1).Draw(t, "ood")
		seed := rapid.Uint64().Draw(t, "order")
		a := NewRanking(id, ood)
		var parts [3]Scores
		for i, v := range shuffled(id, seed) {
			parts[i%3].Add(v)
		}
		parts[2].Merge(&parts[0])
		parts[2].Merge(&parts[1])
		b := Rank(&parts[2], NewScores(shuffled(ood, seed)))
		want, got := everyMetric(a), everyMetric(b)
		for name := range want {
			if !sameBits(want[name], got[name]) {
				t.Fatalf("%s: %+v and %+v", name, want[name], got[name])
			}
		}
		if !sameBits(a.ROC(9), b.ROC(9)) {
			t.Fatal("ROC differs")
		}
	})
}

func TestRankingIgnoresMonotoneMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.SliceOfN(rapid.Map(rapid.IntRange(-50, 50), func(i int) float64 { return float64(i) / 8 }), 1, 40)
		id, ood := gen.Draw(t, "id"), gen.Draw(t, "ood")
		transform := func(v []float64) []float64 {
			out := make([]float64, len(v))
			for i, x := range v {
				out[i] = 3*math.Exp(x/4) - 7
			}
			return out
		}
		a, b := NewRanking(id, ood), NewRanking(transform(id), transform(ood))
		want, got := everyMetric(a), everyMetric(b)
		for name := range want {
			if name == "autc" { // its scale is part of it
				continue
			}
			if want[name].Value != got[name].Value || !sameBits(want[name].CILow, got[name].CILow) {
				t.Fatalf("%s: %+v and %+v", name, want[name], got[name])
			}
		}
		if flipped := NewRanking(negated(ood...), negated(id...)).AUROC().Value; flipped != a.AUROC().Value {
			t.Fatalf("AUROC %v, with both sides and signs swapped %v", a.AUROC().Value, flipped)
		}
	})
}

func TestThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := anyScores(1).Draw(t, "id")
		acceptance := float64(rapid.IntRange(1, 100).Draw(t, "percent")) / 100
		s := NewScores(id)
		th, err := s.Threshold(acceptance)
		if err != nil {
			t.Fatal(err)
		}
		below := func(cut float64) (n int) {
			for _, v := range id {
				if v < cut {
					n++
				}
			}
			return n
		}
		enough := func(n int) bool { return float64(100*n) >= math.Round(100*acceptance)*float64(len(id)) }
		if th.Reason != "" {
			if enough(below(math.Inf(1))) {
				t.Fatalf("no threshold though there is one: %+v", th)
			}
			return
		}
		if !enough(below(th.Value)) || enough(below(math.Nextafter(th.Value, math.Inf(-1)))) {
			t.Fatalf("%+v is not the smallest threshold", th)
		}
		if int(th.Accepted) != below(th.Value) || th.Reached != float64(th.Accepted)/float64(len(id)) || th.Reached < acceptance-1e-9 {
			t.Fatalf("%+v", th)
		}
	})
	for _, bad := range []float64{0, -1, 1.1, math.NaN(), 1e-9} {
		if _, err := NewScores([]float64{1}).Threshold(bad); err == nil {
			t.Errorf("acceptance %v is taken", bad)
		}
	}
	if th, err := new(Scores).Threshold(0.95); err != nil || th.Reason != ReasonNoRows {
		t.Errorf("threshold of no rows %+v, %v", th, err)
	}
	// Ties as one block: 95 % of 0,0,1,1 asks for all.
	if th, _ := NewScores([]float64{0, 0, 1, 1}).Threshold(0.5); th.Reached != 0.5 || th.Value <= 0 || th.Value >= 1 {
		t.Errorf("%+v", th)
	}
	if th, _ := NewScores([]float64{0, 1, 1, 1}).Threshold(0.5); th.Reached != 1 {
		t.Errorf("%+v", th)
	}
}
