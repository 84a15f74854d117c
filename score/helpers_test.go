package score

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// near checks got to the six decimals in which the shared vectors are given.
func near(t *testing.T, name string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 6e-7) {
		t.Errorf("%s = %.9f, want %.6f", name, got, want)
	}
}

func value(t *testing.T, name string, m Metric, want float64) {
	t.Helper()
	if !m.Defined || m.Reason != "" {
		t.Errorf("%s is undefined (%s), want %.6f", name, m.Reason, want)
		return
	}
	near(t, name, m.Value, want)
}

func missing(t *testing.T, name string, m Metric, reason string) {
	t.Helper()
	if m.Defined || m.Reason != reason || !math.IsNaN(m.Value) || !math.IsNaN(m.CILow) {
		t.Errorf("%s = %+v, want undefined with reason %s", name, m, reason)
	}
}

// split parts scores by label, 1 = OOD.
func split(s []float64, ood []int) (id, o []float64) {
	for i, v := range s {
		if ood[i] == 1 {
			o = append(o, v)
		} else {
			id = append(id, v)
		}
	}
	return id, o
}

func negated(v ...float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = -x
	}
	return out
}

func shuffled[T any](v []T, seed uint64) []T {
	out := append([]T(nil), v...)
	r := rand.New(rand.NewPCG(seed, 1))
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// sameBits compares two values of any type, floats by their bits, NaN equal to NaN.
func sameBits(a, b any) bool { return equalBits(reflect.ValueOf(a), reflect.ValueOf(b)) }

func equalBits(a, b reflect.Value) bool {
	if a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.Float64:
		return math.Float64bits(a.Float()) == math.Float64bits(b.Float())
	case reflect.Struct:
		for i := range a.NumField() {
			if !equalBits(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equalBits(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
}

// anyScores draws scores with many ties, infinities and signed zeros.
func anyScores(least int) *rapid.Generator[[]float64] {
	one := rapid.OneOf(
		rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) }),
		rapid.Float64Range(-10, 10),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324}),
	)
	return rapid.SliceOfN(one, least, 40)
}
