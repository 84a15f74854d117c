package score

import "math"

var nan = math.NaN()

// Reasons why a value is undefined, as they stand in the tables.
const (
	ReasonNoRows         = "no_rows"         // nothing to compute it from
	ReasonOneClass       = "one_class"       // ID rows or OOD rows only
	ReasonConstant       = "constant_scores" // every score is equal
	ReasonInfinite       = "infinite_scores" // a scale that an infinite score destroys
	ReasonTooFewRows     = "too_few_rows"    // a variance needs two rows on each side
	ReasonAtBoundary     = "at_boundary"     // estimate exactly 0 or 1: its standard error is 0 and its logit infinite
	ReasonZeroVariance   = "zero_variance"   // estimated standard error exactly 0
	ReasonNoLogits       = "no_logits"
	ReasonNaNLogits      = "nan_logits"
	ReasonInfLogits      = "inf_logits"          // a logit is +Inf
	ReasonAllNegInf      = "all_neg_inf_logits"  // every logit is -Inf: no softmax
	ReasonOneLogit       = "one_logit"           // needs two classes
	ReasonNoScoreNorm    = "no_score_norm"       // the model has no gradient output
	ReasonBadScoreNorm   = "bad_score_norm"      // negative
	ReasonBadTemperature = "bad_temperature"     // not a positive finite number
	ReasonBadLabel       = "label_out_of_range"  // not in 0..K-1
	ReasonLogitCount     = "wrong_logit_count"   // not K of them
	ReasonUnreachable    = "unreachable"         // no threshold or no part of the curve meets the request
	ReasonNotComputed    = "no_interval_defined" // no interval is offered for this figure
)

// Names of the confidence intervals, all two-sided at 95 %.
const (
	CIDeLongLogit    = "delong_logit"    // normal on the logit scale, standard error of DeLong 1988
	CIWilson         = "wilson"          // Wilson 1927, a proportion
	CIWilsonAtCut    = "wilson_at_cut"   // Wilson for a rate at an estimated threshold, taken as given: somewhat narrow
	CIBinomialLogit  = "binomial_logit"  // Boyd, Eng and Page 2013, for average precision
	CINormalOfMean   = "normal_of_mean"  // mean +- 1.96 standard errors
	normal975        = 1.959963984540054 // 97.5 % quantile of N(0,1)
	normal975Squared = normal975 * normal975
)

// Metric is one figure. Value is NaN and Reason is set when it is undefined; CILow and CIHigh are NaN and CIReason is
// set when there is no interval.
type Metric struct {
	Value         float64
	Defined       bool
	Reason        string  // why there is no value, "" when there is
	CILow, CIHigh float64 // 95 % interval
	CIMethod      string  // one of the CI constants, "" without an interval
	CIReason      string  // why there is no interval
	Threshold     float64 // the threshold the figure belongs to, NaN where none does
}

func undefined(reason string) Metric {
	return Metric{Value: nan, Reason: reason, CILow: nan, CIHigh: nan, CIReason: reason, Threshold: nan}
}

// defined gives a value without an interval.
func defined(v float64) Metric {
	return Metric{Value: v, Defined: true, CILow: nan, CIHigh: nan, CIReason: ReasonNotComputed, Threshold: nan}
}

func (m Metric) withInterval(lo, hi float64, method string) Metric {
	m.CILow, m.CIHigh, m.CIMethod, m.CIReason = lo, hi, method, ""
	return m
}

func (m Metric) withoutInterval(reason string) Metric {
	m.CILow, m.CIHigh, m.CIMethod, m.CIReason = nan, nan, "", reason
	return m
}

func (m Metric) at(threshold float64) Metric {
	m.Threshold = threshold
	return m
}

// proportion is k/n with a Wilson interval named method.
func proportion(k, n int64, method string) Metric {
	if n == 0 {
		return undefined(ReasonNoRows)
	}
	lo, hi := Wilson(k, n)
	return defined(float64(k)/float64(n)).withInterval(lo, hi, method)
}

// Wilson is the 95 % score interval (Wilson 1927) of a proportion with k successes in n trials, n > 0. It stays in
// [0,1] and is not empty at k = 0 or k = n.
func Wilson(k, n int64) (lo, hi float64) {
	p, m := float64(k)/float64(n), float64(n)
	denom := 1 + normal975Squared/m
	centre := (p + normal975Squared/(2*m)) / denom
	half := normal975 / denom * math.Sqrt(p*(1-p)/m+normal975Squared/(4*m*m))
	lo, hi = max(0, centre-half), min(1, centre+half)
	if k == 0 {
		lo = 0
	}
	if k == n {
		hi = 1
	}
	return lo, hi
}

// withLogitInterval adds the interval that is normal on the logit scale; se is the standard error of logit(value).
func (m Metric) withLogitInterval(se float64, method string) Metric {
	if m.Value <= 0 || m.Value >= 1 {
		return m.withoutInterval(ReasonAtBoundary)
	}
	l := math.Log(m.Value / (1 - m.Value))
	return m.withInterval(sigmoid(l-normal975*se), sigmoid(l+normal975*se), method)
}

func sigmoid(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

// moments adds values and their squares, for a mean with a standard error.
type moments struct {
	n       int64
	sum, sq Sum
}

func (m *moments) add(x float64) {
	m.n++
	m.sum.Add(x)
	m.sq.Add(x * x)
}

func (m *moments) merge(o *moments) {
	m.n += o.n
	m.sum.Merge(&o.sum)
	m.sq.Merge(&o.sq)
}

// metric is the mean with its normal interval.
func (m *moments) metric() Metric {
	if m.n == 0 {
		return undefined(ReasonNoRows)
	}
	n := float64(m.n)
	mean := m.sum.Float64() / n
	out := defined(mean)
	switch {
	case m.n < 2:
		return out.withoutInterval(ReasonTooFewRows)
	case math.IsInf(mean, 0):
		return out.withoutInterval(ReasonInfinite)
	}
	variance := max(0, m.sq.Float64()-n*mean*mean) / (n - 1)
	half := normal975 * math.Sqrt(variance/n)
	return out.withInterval(mean-half, mean+half, CINormalOfMean)
}
