package langevin

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/keyed"
)

// walker is the Gaussian with several updates a call, by the contract of Walker.
type walker struct {
	gaussian
	rule  Rule
	walks []int // updates of each call
}

func (w *walker) Walk(ctx context.Context, x []float32, classes []int32, noise, steps []float32, logp []float64) error {
	w.walks = append(w.walks, len(steps))
	n, grad := len(x)/w.dim, make([]float32, len(x))
	for s, step := range steps {
		if err := w.Gradient(ctx, x, classes, logp[s*n:(s+1)*n], grad); err != nil {
			return err
		}
		for i := range x {
			d := min(max(grad[i], -float32(w.rule.GradClip)), float32(w.rule.GradClip))
			v := x[i] + float32(step*d)
			v += noise[s*len(x)+i]
			x[i] = min(max(v, float32(w.rule.Range[0])), float32(w.rule.Range[1]))
		}
	}
	return nil
}

// Several updates a call, with and without visits, lead to the same bits as one.
func TestWalksEqualSingleSteps(t *testing.T) {
	const n, dim = 5, 4
	for _, rule := range []Rule{
		{Steps: 10, StepSize: 0.3, NoiseStd: 0.1, GradClip: 0.5, Clamp: true, Range: []float64{-1, 1}},
		{Steps: 10, StepSize: 0.3, Temperature: 0.1, GradClip: 0.5, Clamp: true, Range: []float64{-1, 0.8}, Schedule: Geometric, DecayTo: 0.1},
		{Steps: 10, StepSize: 0.3, GradClip: 0.5, Clamp: true, Range: []float64{-1, 1}, Schedule: Polynomial, DecayOffset: 2, DecayPower: 1},
	} {
		run := func(perCall, every int, visited map[int][]float64) (Chains, Stats, []int) {
			r := rule
			r.StepsPerCall = perCall
			g := gaussian{dim: dim, means: []float64{0.4, -2}}
			a, b := &walker{gaussian: g, rule: rule}, &walker{gaussian: g, rule: rule}
			s, err := NewSampler(r, dim, keyed.New(9, "t"), a, b)
			if err != nil {
				t.Fatal(err)
			}
			c := chains(n, dim)
			c.Classes = []int32{0, 1, 0, 1, 1}
			var visit Visit
			if visited != nil {
				s.VisitEvery = every
				visit = func(step int, x []float32, logp []float64) error {
					visited[step] = slices.Clone(logp)
					return nil
				}
			}
			st, err := s.Run(context.Background(), c, visit)
			if err != nil {
				t.Fatal(err)
			}
			return c, st, a.walks
		}
		want, wantStats, walks := run(1, 0, nil)
		if len(walks) != 0 {
			t.Errorf("one step a call made walks %v", walks)
		}
		single := map[int][]float64{}
		run(1, 1, single)
		for _, perCall := range []int{2, 3, 10, 20} {
			got, stats, walks := run(perCall, 0, nil)
			if !slices.Equal(got.X, want.X) || fmt.Sprint(stats) != fmt.Sprint(wantStats) {
				t.Errorf("%d steps a call: %v with %+v, one: %v with %+v", perCall, got.X, stats, want.X, wantStats)
			}
			if perCall == 3 && !slices.Equal(walks, []int{3, 3, 3, 1}) {
				t.Errorf("3 steps a call made walks %v", walks)
			}
			visited := map[int][]float64{}
			got, _, _ = run(perCall, 4, visited)
			if !slices.Equal(got.X, want.X) {
				t.Errorf("%d steps a call, visited: %v, one: %v", perCall, got.X, want.X)
			}
			for _, step := range []int{0, 4, 8, 10} {
				if !slices.Equal(visited[step], single[step]) {
					t.Errorf("log densities of step %d: %v, want %v", step, visited[step], single[step])
				}
			}
			if len(visited) != 4 {
				t.Errorf("%d visits, want those of the steps 0, 4, 8, 10", len(visited))
			}
		}
	}
}

type divergingWalk struct{ walker }

func (d *divergingWalk) Walk(ctx context.Context, x []float32, classes []int32, noise, steps []float32, logp []float64) error {
	err := d.walker.Walk(ctx, x, classes, noise, steps, logp)
	if len(d.walks) == 2 {
		logp[4] = math.Inf(1) // of chain 1 at the second update of the call
	}
	return err
}

func TestNonFiniteWalkNamesChainAndStep(t *testing.T) {
	rule := Rule{Steps: 9, StepSize: 0.1, GradClip: 1, Clamp: true, Range: []float64{-1, 1}, StepsPerCall: 3}
	d := &divergingWalk{walker{gaussian: gaussian{dim: 2, means: []float64{0}}, rule: rule}}
	s, err := NewSampler(rule, 2, keyed.New(1, "t"), d)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Run(context.Background(), chains(3, 2), nil)
	if err == nil || !strings.Contains(err.Error(), "chain 1") || !strings.Contains(err.Error(), "step 4") {
		t.Errorf("error %v, want chain 1 and step 4 named", err)
	}
}

func TestStats(t *testing.T) {
	s, err := NewSampler(Rule{Steps: 2, StepSize: 0.5, Clamp: true, Range: []float64{-1, 0.75}}, 2, keyed.New(1, "t"),
		&gaussian{dim: 2, means: []float64{1}}, &gaussian{dim: 2, means: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	// Chain 0 goes from 0 to 0.5 to 0.75 in both elements; chain 1 stays at the mean until it is clamped.
	c := Chains{X: []float32{0, 0, 1, -1}, Keys: []uint64{0, 1}}
	st, err := s.Run(context.Background(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Stats{
		Displacement: (0.75 + math.Sqrt((0.25*0.25+1.5*1.5)/2)) / 2,
		// The last evaluated states are those after one update: (0.5, 0.5) and (0.75, 0).
		EnergyDrop: ((-0.25 + 1) + (-(0.0625+1)/2 + 2)) / 2,
		MaxAbsLogP: 2,
		AtBounds:   0.75,
	}
	if math.Abs(st.Displacement-want.Displacement) > 1e-7 || math.Abs(st.EnergyDrop-want.EnergyDrop) > 1e-7 ||
		st.MaxAbsLogP != want.MaxAbsLogP || st.AtBounds != want.AtBounds || !math.IsNaN(st.Acceptance) {
		t.Errorf("stats %+v, want %+v", st, want)
	}
}

// A run makes no garbage that grows with the number of updates: training makes millions.
func TestUpdatesDoNotAllocate(t *testing.T) {
	for name, rule := range map[string]Rule{"sgld": {StepSize: 0.1, NoiseStd: 0.1}, "mala": {StepSize: 0.1, Temperature: 1, Correct: MALA}} {
		perRun := func(steps int) float64 {
			rule.Steps = steps
			s, err := NewSampler(rule, 50, keyed.New(1, "t"), &gaussian{dim: 50, means: []float64{0}})
			if err != nil {
				t.Fatal(err)
			}
			c := chains(20, 50)
			return testing.AllocsPerRun(20, func() {
				if _, err := s.Run(context.Background(), c, nil); err != nil {
					t.Fatal(err)
				}
			})
		}
		if few, many := perRun(2), perRun(100); many > few+2 {
			t.Errorf("%s: %v allocations with 2 updates, %v with 100", name, few, many)
		}
	}
}
