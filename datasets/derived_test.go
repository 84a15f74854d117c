package datasets

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/jempipe/jempipe/internal/fault"
)

// derivedSpecs has the digits as "base" and one entry for each derivation.
func derivedSpecs() map[string]Spec {
	specs := map[string]Spec{"base": {Source: "builtin:digits"}}
	for _, name := range derivationNames() {
		specs[name] = Spec{Derive: name, Of: "base"}
	}
	return specs
}

func TestDerivedDoNotDependOnBatches(t *testing.T) {
	s := checked(t, NewSet(derivedSpecs(), 7, ""))
	other := NewSet(derivedSpecs(), 8, "")
	base := collect(t, s, "base", 100)
	for _, name := range derivationNames() {
		want := collect(t, s, name, 1)
		for _, n := range []int{7, 64, 1000, 5000, 1} {
			if !reflect.DeepEqual(want, collect(t, s, name, n)) {
				t.Fatalf("%s: rows in batches of %d are not those in batches of 1", name, n)
			}
		}
		if diff := cmp.Diff(base.IDs, want.IDs); diff != "" {
			t.Errorf("%s: ids are not those of the base: %s", name, diff)
		}
		if slices.Contains(want.HasLabel, true) {
			t.Errorf("%s: has labels", name)
		}
		d, _ := findDerivation(name)
		if same := reflect.DeepEqual(want, collect(t, other, name, 64)); same == d.draws {
			t.Errorf("%s: rows under another seed are the same: %v", name, same)
		}
		set, _ := s.Get(name)
		info := Info{Name: name, Rows: 1797, Shape: []int{8, 8}, Float: !d.moves, Hi: 16}
		if diff := cmp.Diff(info, set.Info()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Skip and limit only choose among rows: a row is the same whatever is left out around it.
func TestDerivedSkipAndLimit(t *testing.T) {
	for _, name := range derivationNames() {
		specs := derivedSpecs()
		whole := collect(t, NewSet(specs, 7, ""), name, 64)
		for _, cut := range []struct{ skip, limit int64 }{{0, 10}, {5, 10}, {1020, 10}, {1024, 0}, {1500, 100}, {1796, 0}} {
			spec := specs[name]
			spec.Skip, spec.Limit = cut.skip, cut.limit
			to := int64(1797)
			if cut.limit > 0 {
				to = min(to, cut.skip+cut.limit)
			}
			specs[name] = spec
			got := collect(t, checked(t, NewSet(specs, 7, "")), name, 7)
			if !slices.Equal(whole.X[cut.skip*64:to*64], got.X) || !slices.Equal(whole.IDs[cut.skip:to], got.IDs) {
				t.Errorf("%s, skip %d, limit %d: other rows than without", name, cut.skip, cut.limit)
			}
		}
	}
}

func moments(x []float32) (mean, variance float64) {
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean)
	}
	return mean, variance / float64(len(x)-1)
}

// Mean and variance of 115,008 draws; bounds are about five standard errors.
func TestNoiseStatistics(t *testing.T) {
	specs := derivedSpecs()
	specs["narrow"] = Spec{Derive: "gaussian_noise", Of: "base", Std: 0.2}
	s := NewSet(specs, 3, "")
	// A normal distribution with mean 0 and deviation 1, clamped to [-1, 1], has variance
	// 1 - 2 phi(1) - P(|Z| > 1) + P(|Z| > 1) = P(|Z| < 1) - 2 phi(1) + P(|Z| > 1) = 1 - 2 phi(1).
	phi := math.Exp(-0.5) / math.Sqrt(2*math.Pi)
	for _, c := range []struct {
		name     string
		variance float64 // of x
		slack    float64
	}{
		{"uniform_noise", 16 * 16 / 12.0, 0.3},
		{"gaussian_noise", 64 * (1 - 2*phi), 0.5},
		{"narrow", 1.6 * 1.6, 0.06},
	} {
		rows := collect(t, s, c.name, 500)
		mean, variance := moments(rows.X)
		if math.Abs(mean-8) > 5*math.Sqrt(c.variance/float64(len(rows.X))) {
			t.Errorf("%s: mean %.4f, want 8", c.name, mean)
		}
		if math.Abs(variance-c.variance) > c.slack {
			t.Errorf("%s: variance %.4f, want %.4f", c.name, variance, c.variance)
		}
		if lo, hi := slices.Min(rows.X), slices.Max(rows.X); lo < 0 || hi > 16 {
			t.Errorf("%s: values from %v to %v, want 0 to 16", c.name, lo, hi)
		}
		if cmp.Equal(rows.X[:64], rows.X[64:128]) {
			t.Errorf("%s: two rows are the same", c.name)
		}
	}
}

func TestShuffleIsAPermutation(t *testing.T) {
	s := NewSet(derivedSpecs(), 3, "")
	base, got := collect(t, s, "base", 500), collect(t, s, "pixel_shuffle", 500)
	moved := 0
	for i := range base.Len() {
		a, b := slices.Clone(base.X[i*64:(i+1)*64]), slices.Clone(got.X[i*64:(i+1)*64])
		if !slices.Equal(a, b) {
			moved++
		}
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) {
			t.Fatalf("row %d: other values", i)
		}
	}
	if moved != base.Len() {
		t.Errorf("%d of %d rows were shuffled", moved, base.Len())
	}
}

func TestInversionIsExact(t *testing.T) {
	s := NewSet(derivedSpecs(), 3, "")
	base, got := collect(t, s, "base", 500), collect(t, s, "inversion", 500)
	for i, v := range base.X {
		if got.X[i] != 16-v {
			t.Fatalf("value %d: %v became %v", i, v, got.X[i])
		}
	}
}

// Every row is half itself and half another row of its block.
func TestInterpolation(t *testing.T) {
	s := NewSet(derivedSpecs(), 3, "")
	base, got := collect(t, s, "base", 500), collect(t, s, "interpolation", 500)
	row := func(r *Rows, i int) []float32 { return r.X[i*64 : (i+1)*64] }
	at := map[[64]float32][]int{}
	for i := range base.Len() {
		at[[64]float32(row(base, i))] = append(at[[64]float32(row(base, i))], i)
	}
	partners := map[int]int{}
	for i := range base.Len() {
		var other [64]float32
		for k := range other {
			other[k] = 2*row(got, i)[k] - row(base, i)[k]
		}
		found := slices.DeleteFunc(slices.Clone(at[other]), func(j int) bool { return j == i || j/1024 != i/1024 })
		if len(found) == 0 {
			t.Fatalf("row %d is no mixture with another row of its block", i)
		}
		partners[found[0]]++
	}
	if len(partners) < 1000 {
		t.Errorf("%d different partners, want about 1100", len(partners))
	}
}

func TestInterpolationOfOneRow(t *testing.T) {
	s := NewSet(map[string]Spec{"base": {Source: "builtin:digits", Limit: 1}, "d": {Derive: "interpolation", Of: "base"}}, 1, "")
	if diff := cmp.Diff(collect(t, s, "base", 1).X, collect(t, s, "d", 1).X); diff != "" {
		t.Error(diff)
	}
}

// Bad rows of the base stay bad and take no part in mixtures.
func TestDerivedKeepsBadRows(t *testing.T) {
	nan := float32(math.NaN())
	x := idxBytes(idxFloat32, []float32{1, 2, nan, 4, 5, 6}, 3, 2)
	specs := map[string]Spec{"base": {Source: "idx", Images: write(t, "x", x), BadRows: "keep", Range: []float64{0, 6}}}
	for _, name := range derivationNames() {
		specs[name] = Spec{Derive: name, Of: "base"}
	}
	s := checked(t, NewSet(specs, 1, ""))
	for _, name := range derivationNames() {
		got := collect(t, s, name, 2)
		if diff := cmp.Diff([]string{StatusOK, StatusNaN, StatusOK}, got.Status) + cmp.Diff([]string{"", "NaN at position 0 of x", ""}, got.Reason) + cmp.Diff([]float32{0, 0}, got.X[2:4]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if diff := cmp.Diff([]float32{3, 4, 0, 0, 3, 4}, collect(t, s, "interpolation", 2).X); diff != "" {
		t.Error(diff)
	}
}

// Sets can be derived from derived sets, and from text ids.
func TestDerivedFromDerived(t *testing.T) {
	specs := derivedSpecs()
	specs["twice"] = Spec{Derive: "inversion", Of: "inversion"}
	specs["noise"] = Spec{Derive: "inversion", Of: "gaussian_noise"}
	s := checked(t, NewSet(specs, 1, ""))
	if !slices.Equal(collect(t, s, "base", 100).X, collect(t, s, "twice", 100).X) {
		t.Error("inverted twice, the digits are not the same")
	}
	a, b := collect(t, s, "gaussian_noise", 100), collect(t, s, "noise", 100)
	for i := range a.X {
		if math.Abs(float64(a.X[i]+b.X[i])-16) > 2e-6 {
			t.Fatalf("value %d: %v and %v", i, a.X[i], b.X[i])
		}
	}
}

func TestDerivedErrors(t *testing.T) {
	f := write(t, "f", idxBytes(idxFloat32, []float32{1, 2}, 2, 1))
	u := write(t, "u", idxBytes(idxUint8, []uint8{1, 200}, 2, 1))
	specs := map[string]Spec{
		"f":    {Source: "idx", Images: f},
		"none": {Derive: "uniform_noise", Of: "f"},
		"u":    {Source: "idx", Images: u, Range: []float64{0, 100}},
		"out":  {Derive: "inversion", Of: "u"},
		"odd":  {Source: "idx", Images: u, Range: []float64{0, 0.5}},
		"frac": {Derive: "inversion", Of: "odd"},
		"nan":  {Source: "idx", Images: write(t, "n", idxBytes(idxFloat32, []float32{1, float32(math.NaN())}, 2, 1)), Range: []float64{0, 1}},
		"bad":  {Derive: "inversion", Of: "nan"},
		"deaf": {Derive: "inversion", Of: "gone"},
		"gone": {Source: "idx", Images: "/no/such/file"},
	}
	s := NewSet(specs, 1, "")
	_, err := s.Get("none")
	wantFault(t, err, fault.Config, "data.none.derive: the range of f is not known", "data.f.range")
	_, err = tryCollect(s, "out", 10)
	wantFault(t, err, fault.Data, "sample_id 1 has value 200, outside the range [0, 100]")
	_, err = s.Get("frac")
	wantFault(t, err, fault.Config, "data.odd.range: [0, 0.5], wanted whole numbers")
	_, err = tryCollect(s, "bad", 10)
	wantFault(t, err, fault.Data, "row 1: NaN at position 0 of x")
	_, err = tryCollect(s, "deaf", 10)
	wantFault(t, err, fault.Data, "/no/such/file")
}

func TestDerivedStopsWithContext(t *testing.T) {
	d, err := checked(t, NewSet(derivedSpecs(), 1, "")).Get("uniform_noise")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r, err := d.Open(ctx, 1024)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stop()
	if _, err := r.Next(); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// Draws never leave the range, also where its ends are no float32.
func TestClampStaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := block{lo: rapid.Float64Range(-1000, 1000).Draw(t, "lo")}
		b.hi = b.lo + rapid.Float64Range(1e-3, 1000).Draw(t, "width")
		v := rapid.Float64Range(-3000, 3000).Draw(t, "v")
		if f := float64(b.clamp(v)); f < b.lo || f > b.hi {
			t.Fatalf("clamp(%g) = %g, outside [%g, %g]", v, f, b.lo, b.hi)
		}
	})
}
