package langevin

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
)

// Density is a log density that can be differentiated. Implementations are used by one goroutine at a time.
type Density interface {
	// Gradient writes the log density of n states, up to a constant, to logp [n] and its gradient with respect to
	// the states to grad [n*D]. x [n*D] is row-major in model space. classes [n] asks for log p(x, y) instead of
	// log p(x); it is nil for the unconditional density.
	Gradient(ctx context.Context, x []float32, classes []int32, logp []float64, grad []float32) error
}

// Walker is a density that can make several updates of a rule in one call, such as one on an accelerator.
type Walker interface {
	Density
	// Walk makes len(steps) updates of n states x [n*D] in place, by the clipping and clamping of the rule it was made
	// for: x <- x + steps[s] gradient + noise[s]. noise [S*n*D] already has its standard deviation. The log density of
	// each state before update s goes to logp [S*n].
	Walk(ctx context.Context, x []float32, classes []int32, noise, steps []float32, logp []float64) error
}

// Refresher is a density whose weights may change between runs, but not during one. Refresh is called once before each
// run, with no evaluation under way, and makes the run use the present weights.
type Refresher interface {
	Density
	Refresh()
}

// Chains is a batch of chains: their states and the keys of their noise.
type Chains struct {
	X       []float32 // [n*D] states in model space, changed in place
	Keys    []uint64  // [n] one key a chain: equal keys and seeds draw equal noise
	Classes []int32   // [n] the class of each chain, or nil
}

// Visit sees the states after step updates (0: the start) with their log densities. The slices are valid during the
// call only.
type Visit func(step int, x []float32, logp []float64) error

// Sampler runs chains. Batches are split over the densities, which run side by side; since chains do not meet, the
// split changes nothing but the time, save for the last bits of a density that depends on its batch size. It is used by
// one goroutine at a time.
type Sampler struct {
	// VisitEvery is how many updates lie between two visits; 0: one. The start and the end are visited in any case.
	VisitEvery int

	rule      Rule
	dim       int
	lo, hi    float32
	densities []Density
	noise     keyed.Source
	accept    keyed.Source
	steps     []float32 // of each update
	stds      []float32
	shares    []share
	logp      []float64 // of all chains, for visits
	start     []float32
}

// NewSampler makes a sampler of states with dim elements. Every density takes an equal share of a batch, rounded up.
// Rule.StepsPerCall is heeded by densities that are Walkers.
func NewSampler(rule Rule, dim int, noise keyed.Source, densities ...Density) (*Sampler, error) {
	if dim < 1 || len(densities) < 1 {
		return nil, fmt.Errorf("langevin: %d elements a state and %d densities: at least one of each is wanted", dim, len(densities))
	}
	if err := rule.check(); err != nil {
		return nil, err
	}
	s := &Sampler{rule: rule, dim: dim, densities: densities, noise: noise, accept: keyed.New(noise.Seed(0), "accept"),
		steps: make([]float32, rule.Steps), stds: make([]float32, rule.Steps), shares: make([]share, len(densities))}
	s.lo, s.hi = rule.bounds()
	for k := range s.steps {
		step, std := rule.At(k)
		s.steps[k], s.stds[k] = float32(step), float32(std)
	}
	for i := range s.shares {
		s.shares[i].s, s.shares[i].density = s, densities[i]
	}
	return s, nil
}

// Run moves all chains by Rule.Steps updates. With a visit it also evaluates the visited states, which costs one more
// evaluation for the last, save with mala. A non-finite log density or gradient is an error that names chain and step.
func (s *Sampler) Run(ctx context.Context, c Chains, visit Visit) (Stats, error) {
	n := len(c.Keys)
	if n == 0 || len(c.X) != n*s.dim || c.Classes != nil && len(c.Classes) != n {
		return Stats{}, fmt.Errorf("langevin: %d keys, %d values and %d classes do not describe chains of %d elements",
			n, len(c.X), len(c.Classes), s.dim)
	}
	for _, d := range s.densities {
		if r, ok := d.(Refresher); ok {
			r.Refresh()
		}
	}
	used := s.divide(c)
	s.start = append(s.start[:0], c.X...)
	if visit == nil {
		if err := each(used, func(w *share) error { return w.advance(ctx, s.rule.Steps) }); err != nil {
			return Stats{}, err
		}
		return s.stats(used, c), nil
	}
	every := max(s.VisitEvery, 1)
	for at := 0; ; at = min((at/every+1)*every, s.rule.Steps) {
		err := each(used, func(w *share) error {
			if err := w.advance(ctx, at); err != nil {
				return err
			}
			return w.settle(ctx)
		})
		if err != nil {
			return Stats{}, err
		}
		s.logp = s.logp[:0]
		for i := range used {
			s.logp = append(s.logp, used[i].logp...)
		}
		if err := visit(at, c.X, s.logp); err != nil {
			return Stats{}, err
		}
		if at == s.rule.Steps {
			return s.stats(used, c), nil
		}
	}
}

// divide gives each density its share of the chains and returns the shares that got any.
func (s *Sampler) divide(c Chains) []share {
	n := len(c.Keys)
	size := (n + len(s.densities) - 1) / len(s.densities)
	used := s.shares[:(n+size-1)/size]
	for i := range used {
		lo, hi := i*size, min((i+1)*size, n)
		part := Chains{X: c.X[lo*s.dim : hi*s.dim], Keys: c.Keys[lo:hi]}
		if c.Classes != nil {
			part.Classes = c.Classes[lo:hi]
		}
		used[i].begin(part, lo)
	}
	return used
}

// each does something for all shares side by side. Of several failures the one of the earliest step is told, whichever
// share met its own first.
func each(shares []share, do func(*share) error) error {
	errs := make([]error, len(shares))
	var wg sync.WaitGroup
	for i := range shares {
		wg.Go(func() { errs[i] = fault.Recovered(func() error { return do(&shares[i]) })() })
	}
	wg.Wait()
	var first error
	step := math.MaxInt
	for i, err := range errs {
		if err != nil && shares[i].at < step {
			first, step = err, shares[i].at
		}
	}
	return first
}
