package score

import (
	"cmp"
	"math"
	"slices"
)

// Need says what a detector reads beyond the logits.
type Need string

const (
	NeedsLogits    Need = "logits"     // nothing more
	NeedsScoreNorm Need = "score_norm" // norm of the input gradient of logsumexp
)

// Detector gives each sample a score that is larger for samples that look more out of distribution.
type Detector struct {
	Name    string // column ood_NAME
	Summary string // one sentence
	Formula string
	Source  string
	Needs   Need
	// Score returns the score, or NaN and the reason why there is none. Infinite scores are legal.
	Score func(s *Sample, o Options) (score float64, reason string)
}

// Options are the parameters of detectors that have any.
type Options struct {
	Temperature float64 // of energy_t and msp_t; 0 means 1
}

func (o Options) temperature() float64 {
	if o.Temperature == 0 {
		return 1
	}
	return o.Temperature
}

// Sample is what detectors see of one sample.
type Sample struct {
	Logits    []float32 // [K]
	ScoreNorm float64   // l2 norm of this sample's own d logsumexp / dx; NaN when absent
	NoDensity string    // why the logits hold no density, such as that they are logarithms of probabilities; "" where they do

	row  Row
	done bool
}

// NewSample is a sample with logits and no score norm.
func NewSample(logits []float32) Sample { return Sample{Logits: logits, ScoreNorm: math.NaN()} }

// Reset makes s a new sample, so that one Sample can serve a whole loop.
func (s *Sample) Reset(logits []float32, scoreNorm float64) {
	*s = Sample{Logits: logits, ScoreNorm: scoreNorm}
}

// Row is Describe(s.Logits), computed once.
func (s *Sample) Row() Row {
	if !s.done {
		s.row, s.done = Describe(s.Logits, nil), true
	}
	return s.row
}

// SetRow hands in a Row that the caller has computed from the same logits.
func (s *Sample) SetRow(r Row) { s.row, s.done = r, true }

var registry []Detector

// register enters a detector; each stands in a file of its own and registers itself.
func register(d Detector) bool {
	at, _ := slices.BinarySearchFunc(registry, d.Name, func(e Detector, name string) int { return cmp.Compare(e.Name, name) })
	registry = slices.Insert(registry, at, d)
	return true
}

// Detectors lists every detector, by name.
func Detectors() []Detector { return slices.Clone(registry) }

// FindDetector returns the detector of that name.
func FindDetector(name string) (Detector, bool) {
	at, ok := slices.BinarySearchFunc(registry, name, func(e Detector, name string) int { return cmp.Compare(e.Name, name) })
	if !ok {
		return Detector{}, false
	}
	return registry[at], true
}

// fromRow makes the Score function of a detector that is a figure of the Row and needs the softmax.
func fromRow(f func(Row) float64) func(*Sample, Options) (float64, string) {
	return func(s *Sample, _ Options) (float64, string) {
		r := s.Row()
		if r.Reason != "" {
			return math.NaN(), r.Reason
		}
		return f(r), ""
	}
}

// fromDensity is fromLimit for figures that are log densities.
func fromDensity(f func(Row) float64) func(*Sample, Options) (float64, string) {
	limit := fromLimit(f)
	return func(s *Sample, o Options) (float64, string) {
		if s.NoDensity != "" {
			return math.NaN(), s.NoDensity
		}
		return limit(s, o)
	}
}

// fromLimit is fromRow for figures that have a clear limit at infinite logits.
func fromLimit(f func(Row) float64) func(*Sample, Options) (float64, string) {
	return func(s *Sample, _ Options) (float64, string) {
		r := s.Row()
		if v := f(r); !math.IsNaN(v) {
			return v, ""
		}
		return math.NaN(), r.Reason
	}
}
