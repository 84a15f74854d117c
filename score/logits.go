package score

import "math"

// Row is everything that the logits of one sample say by themselves. All fields are float64 functions of the float32
// logits.
type Row struct {
	LSE        float64 // logsumexp; -LSE is the energy. -Inf when all logits are -Inf, +Inf when one is +Inf
	Max        float64 // largest logit
	Confidence float64 // largest softmax probability, in (0,1]
	Margin     float64 // difference of the two largest probabilities, in [0,1]; NaN for one class
	Entropy    float64 // of the softmax, in nats, in [0, ln K]
	Pred       int     // class of the largest logit, the lowest index of those that share it; -1 when a logit is NaN
	Tie        bool    // the largest logit is shared
	Reason     string  // why the softmax figures are NaN ("" when they are not): one of the Reason constants
}

// Energy is -LSE: the energy of a classifier seen as an energy-based model (Grathwohl et al. 2019).
func (r Row) Energy() float64 { return -r.LSE }

// Describe computes a Row from the K logits of one sample. probs, when not nil, has K elements and receives the
// softmax. Every figure is formed from differences to the largest logit, so that it stays exact for logits of any
// size: with logits (200, 0) the entropy is 2.8e-85 and not the NaN of sum p log p.
func Describe(logits []float32, probs []float64) Row { return DescribeAt(logits, 1, probs) }

// DescribeAt is Describe for logits divided by a temperature t > 0. LSE and Max are those of the divided logits.
func DescribeAt(logits []float32, t float64, probs []float64) Row {
	pred, tie := Argmax(logits)
	if reason := softmaxReason(logits, pred, t); reason != "" {
		return undefinedRow(logits, pred, tie, t, reason, probs)
	}
	top := float64(logits[pred])
	rest, weighted, second := 0.0, 0.0, math.Inf(-1)
	for k, z := range logits {
		if k == pred {
			continue
		}
		d := (float64(z) - top) / t
		e := math.Exp(d)
		if probs != nil {
			probs[k] = e
		}
		rest += e
		if e > 0 { // 0 * -Inf has the limit 0
			weighted += e * d
		}
		second = max(second, d)
	}
	total := 1 + rest
	logTotal := math.Log1p(rest)
	row := Row{
		LSE:        top/t + logTotal,
		Max:        top / t,
		Confidence: 1 / total,
		Margin:     -math.Expm1(second) / total,
		Entropy:    logTotal - weighted/total,
		Pred:       pred,
		Tie:        tie,
	}
	if len(logits) == 1 {
		row.Margin = nan
	}
	if probs != nil {
		probs[pred] = 1
		for k := range probs {
			probs[k] /= total
		}
	}
	return row
}

func softmaxReason(logits []float32, pred int, t float64) string {
	switch {
	case len(logits) == 0:
		return ReasonNoLogits
	case !(t > 0) || math.IsInf(t, 0):
		return ReasonBadTemperature
	case pred < 0:
		return ReasonNaNLogits
	case math.IsInf(float64(logits[pred]), 1):
		return ReasonInfLogits
	case math.IsInf(float64(logits[pred]), -1):
		return ReasonAllNegInf
	}
	return ""
}

func undefinedRow(logits []float32, pred int, tie bool, t float64, reason string, probs []float64) Row {
	row := Row{LSE: nan, Max: nan, Confidence: nan, Margin: nan, Entropy: nan, Pred: pred, Tie: tie, Reason: reason}
	if reason == ReasonInfLogits || reason == ReasonAllNegInf { // both have clear limits
		row.Max = float64(logits[pred])
		row.LSE = row.Max
	}
	for k := range probs {
		probs[k] = nan
	}
	return row
}

// LogSumExp is log(sum_k exp(logits_k)) in float64. It is -Inf for all -Inf, +Inf when a logit is +Inf, and NaN for
// no logits or when a logit is NaN.
func LogSumExp(logits []float32) float64 { return LogSumExpAt(logits, 1) }

// LogSumExpAt is the log-sum-exp of logits/t, t > 0.
func LogSumExpAt(logits []float32, t float64) float64 {
	pred, tie := Argmax(logits)
	if reason := softmaxReason(logits, pred, t); reason != "" {
		return undefinedRow(logits, pred, tie, t, reason, nil).LSE
	}
	return float64(logits[pred])/t + math.Log1p(expRest(logits, pred, t))
}

// expRest is the sum of exp((z_k - z_pred)/t) over the classes other than pred.
func expRest(logits []float32, pred int, t float64) float64 {
	top, rest := float64(logits[pred]), 0.0
	for k, z := range logits {
		if k != pred {
			rest += math.Exp((float64(z) - top) / t)
		}
	}
	return rest
}

// Energy is -LogSumExp: +Inf when all logits are -Inf, NaN when one is NaN.
func Energy(logits []float32) float64 { return -LogSumExp(logits) }

// Softmax writes the K probabilities into probs, which it grows when it is too short, and returns it. All are NaN
// when a logit is NaN or +Inf or all are -Inf.
func Softmax(logits []float32, probs []float64) []float64 {
	if cap(probs) < len(logits) {
		probs = make([]float64, len(logits))
	}
	probs = probs[:len(logits)]
	Describe(logits, probs)
	return probs
}

// Argmax is the lowest index of the largest logit, and whether the largest is shared. It is -1 for no logits or when
// a logit is NaN.
func Argmax(logits []float32) (pred int, tie bool) {
	if len(logits) == 0 {
		return -1, false
	}
	top := logits[0]
	for k, z := range logits {
		switch {
		case z > top:
			pred, top, tie = k, z, false
		case z == top:
			tie = tie || k > 0
		default:
			if z != z || top != top {
				return -1, false
			}
		}
	}
	return pred, tie
}

// NLL is the negative log-likelihood LSE(z) - z_label in nats, exact also where the probability underflows. It is
// +Inf when the label's logit is -Inf, and NaN for undefined logits or a label outside 0..K-1.
func NLL(logits []float32, label int32) float64 { return NLLAt(logits, label, 1) }

// NLLAt is the NLL of logits/t, t > 0.
func NLLAt(logits []float32, label int32, t float64) float64 {
	pred, _ := Argmax(logits)
	if softmaxReason(logits, pred, t) != "" || label < 0 || int(label) >= len(logits) {
		return nan
	}
	behind := (float64(logits[pred]) - float64(logits[label])) / t
	return behind + math.Log1p(expRest(logits, pred, t))
}

// Brier is sum_k (p_k - [k = label])^2 of one row, in [0,2] (Brier 1950); its mean over rows is the multiclass Brier
// score. NaN for a label outside the classes.
func Brier(probs []float64, label int32) float64 {
	if label < 0 || int(label) >= len(probs) {
		return nan
	}
	b := 0.0
	for k, p := range probs {
		if k == int(label) {
			p--
		}
		b += p * p
	}
	return b
}

// L2Norm is the Euclidean norm of v, summed in float64. It is NaN when an element is.
func L2Norm(v []float32) float64 {
	sq := 0.0
	for _, x := range v {
		sq += float64(x) * float64(x)
	}
	return math.Sqrt(sq)
}
