package langevin

import (
	"context"
	"testing"

	"github.com/jempipe/jempipe/internal/keyed"
)

// refreshed is a density that counts how often it is refreshed, and how often it is evaluated before that.
type refreshed struct {
	gaussian
	times, early int
}

func (r *refreshed) Refresh() { r.times++ }

func (r *refreshed) Gradient(ctx context.Context, x []float32, classes []int32, logp []float64, grad []float32) error {
	if r.times == 0 {
		r.early++
	}
	return r.gaussian.Gradient(ctx, x, classes, logp, grad)
}

func TestEachRunRefreshesOnceBeforeItsChains(t *testing.T) {
	d := &refreshed{gaussian: gaussian{dim: 2, means: []float64{0}}}
	rule := Default()
	rule.Steps = 4
	s, err := NewSampler(rule, 2, keyed.New(1, "noise"), d, &gaussian{dim: 2, means: []float64{0}})
	if err != nil {
		t.Fatal(err)
	}
	for run := range 3 {
		if _, err := s.Run(context.Background(), chains(4, 2), nil); err != nil {
			t.Fatal(err)
		}
		if d.times != run+1 || d.early != 0 {
			t.Errorf("run %d: %d refreshments, %d evaluations before the first; want one a run, before its chains", run, d.times, d.early)
		}
	}
}
