package score

import (
	"fmt"
	"math"
	"runtime"
	"sync"
)

// Bounds of the temperature search.
const (
	MinTemperature = 0.01
	MaxTemperature = 100
)

// ReasonFlat is why a temperature stays at 1: the NLL does not depend on it.
const ReasonFlat = "constant_nll"

// TemperatureFit is the outcome of [FitTemperature].
type TemperatureFit struct {
	T           float64 // in [MinTemperature, MaxTemperature]; NaN without usable rows
	HitBound    bool    // the best T lies at or beyond the bound that T is: do not trust it
	NLLBefore   float64 // mean NLL in nats at T = 1
	NLLAfter    float64 // and at T
	N           int64   // rows used
	Dropped     int64   // rows with NaN or +Inf logits, a label outside 0..K-1 or a label whose logit is -Inf
	Evaluations int     // passes over the rows
	Reason      string  // ReasonNoRows: T is NaN; ReasonFlat: T is 1; "" otherwise
}

// FitTemperature finds the temperature T > 0 that minimises the mean NLL of softmax(z/T) (Guo et al. 2017). logits is
// [N,K] row-major; labels has N classes in 0..K-1. It must not see the rows on which the result is then judged.
//
// The NLL is convex in 1/T, so that it has one minimum, where its slope changes sign. The slope is searched in log T
// between the bounds, by Newton steps within a bracket that halves whenever they do not help: T is found to nearly all
// its digits, where a search on the NLL's own values would stop at half of them. Rows are summed exactly, so that T
// does not depend on their order or on the number of threads. Errors are those of shape only.
func FitTemperature(logits []float32, k int, labels []int32) (TemperatureFit, error) {
	if k < 1 || len(logits) != k*len(labels) {
		return TemperatureFit{}, fmt.Errorf("%d logits and %d labels do not make rows of %d classes", len(logits), len(labels), k)
	}
	s := newTemperatureSearch(logits, k, labels)
	fit := TemperatureFit{T: nan, NLLBefore: nan, NLLAfter: nan, N: int64(len(s.rows)), Dropped: int64(len(labels) - len(s.rows))}
	if fit.N == 0 {
		fit.Reason = ReasonNoRows
		return fit, nil
	}
	s.fit(&fit)
	fit.NLLBefore, fit.NLLAfter = s.nll(1), s.nll(fit.T)
	fit.Evaluations = s.passes
	return fit, nil
}

type temperatureRow struct {
	logits     []float32
	top, label int32
}

type temperatureSearch struct {
	rows   []temperatureRow
	passes int
}

func newTemperatureSearch(logits []float32, k int, labels []int32) *temperatureSearch {
	s := &temperatureSearch{rows: make([]temperatureRow, 0, len(labels))}
	for i, label := range labels {
		z := logits[i*k : (i+1)*k]
		pred, _ := Argmax(z)
		if softmaxReason(z, pred, 1) != "" || label < 0 || int(label) >= k || math.IsInf(float64(z[label]), -1) {
			continue
		}
		s.rows = append(s.rows, temperatureRow{z, int32(pred), label})
	}
	return s
}

func (s *temperatureSearch) fit(fit *TemperatureFit) {
	coldest, _ := s.slope(MinTemperature)
	hottest, _ := s.slope(MaxTemperature)
	switch {
	case coldest == 0 && hottest == 0:
		fit.T, fit.Reason = 1, ReasonFlat
	case coldest <= 0: // still falling, or fallen as far as float64 sees
		fit.T, fit.HitBound = MinTemperature, true
	case hottest >= 0:
		fit.T, fit.HitBound = MaxTemperature, true
	default:
		fit.T = math.Exp(s.root())
	}
}

// root is the log T between the bounds at which the slope is 0, knowing that it is positive at the cold end.
func (s *temperatureSearch) root() float64 {
	const tolerance = 1e-14
	cold, hot := math.Log(MinTemperature), math.Log(MaxTemperature)
	u, before := 0.0, hot-cold
	for hot-cold > tolerance {
		slope, curvature := s.slope(math.Exp(u))
		if slope == 0 {
			return u
		}
		if slope > 0 {
			cold = u
		} else {
			hot = u
		}
		// d slope / d log T = -curvature/T
		next := u + slope*math.Exp(u)/curvature
		if !(next > cold && next < hot) || math.Abs(next-u) > before/2 {
			next = cold + (hot-cold)/2
		}
		before = math.Abs(next - u)
		if u = next; before <= tolerance {
			return u
		}
	}
	return u
}

// slope is the first and the second derivative of the summed NLL with respect to 1/T: the sum over rows of
// E_p[z] - z_label, and that of Var_p[z].
func (s *temperatureSearch) slope(t float64) (first, second float64) {
	s.passes++
	sums := s.overRows(func(r temperatureRow) (float64, float64) {
		top := float64(r.logits[r.top])
		w, wd, wdd := 0.0, 0.0, 0.0
		for _, z := range r.logits {
			d := float64(z) - top
			if e := math.Exp(d / t); e > 0 {
				w += e
				wd += e * d
				wdd += e * d * d
			}
		}
		mean := wd / w
		return mean - (float64(r.logits[r.label]) - top), wdd/w - mean*mean
	})
	return sums[0].Float64(), sums[1].Float64()
}

func (s *temperatureSearch) nll(t float64) float64 {
	s.passes++
	sums := s.overRows(func(r temperatureRow) (float64, float64) { return NLLAt(r.logits, r.label, t), 0 })
	return sums[0].Mean(int64(len(s.rows)))
}

// overRows sums the two values of f over the rows, on all cores when there are many; exact sums make the shards
// invisible.
func (s *temperatureSearch) overRows(f func(temperatureRow) (float64, float64)) [2]Sum {
	const small = 4096
	shards := min(runtime.GOMAXPROCS(0), 1+len(s.rows)/small)
	parts := make([][2]Sum, shards)
	var wg sync.WaitGroup
	for i := range parts {
		rows := s.rows[i*len(s.rows)/shards : (i+1)*len(s.rows)/shards]
		wg.Go(func() {
			for _, r := range rows {
				a, b := f(r)
				parts[i][0].Add(a)
				parts[i][1].Add(b)
			}
		})
	}
	wg.Wait()
	for i := 1; i < shards; i++ {
		parts[0][0].Merge(&parts[i][0])
		parts[0][1].Merge(&parts[i][1])
	}
	return parts[0]
}
