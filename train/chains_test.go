package train

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
)

// Chains of every kind go on after a kill where they were.
func TestKilledRunsWithOtherChainsContinueToTheBit(t *testing.T) {
	for name, change := range map[string]func(*Sampler){
		"short runs":     func(s *Sampler) { s.Persistent = false },
		"class Gaussian": func(s *Sampler) { s.Start, s.Restart = langevin.StartClassGaussian, 0.5 },
		"schedule":       func(s *Sampler) { s.Schedule, s.Temperature = langevin.Polynomial, 1e-3 },
		"mala":           func(s *Sampler) { s.Correct, s.Temperature, s.StepSize = langevin.MALA, 1e-2, 1e-2 },
	} {
		t.Run(name, func(t *testing.T) {
			c := toy(everything)
			change(&c.Sampler)
			want, err := resumable(t, c, "", 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if _, err := resumable(t, c, dir, 23, nil); !errors.Is(err, errKilled) {
				t.Fatalf("error %v, want that of the kill", err)
			}
			got, err := resumable(t, c, dir, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			got.equal(t, want)
			if (len(got.buffer) == 0) == c.Sampler.Persistent {
				t.Errorf("%d values of persistent chains", len(got.buffer))
			}
		})
	}
}

// The class Gaussians see the labels that the cross-entropy sees, and no others.
func TestClassGaussiansUseTheLabelsOfTraining(t *testing.T) {
	data := Data{X: []float32{0, 0, 2, 2, 8, 8, 9, 9, 5, 5, 7, 7}, Labels: []int32{0, 0, 0, 1, 1, -1}, Dim: 2, Classes: 2}
	c := toy(func(c *Config) {
		c.Sampler.Start, c.Sampler.Range, c.Sampler.BufferSize, c.Sampler.Conditional = langevin.StartClassGaussian, []float64{-100, 100}, 4000, true
	})
	for perClass, want := range map[int][2]float64{0: {10. / 3, 7}, 2: {1, 7}} {
		c.PerClass = perClass
		b, err := newBuffer(c, data, 1)
		if err != nil {
			t.Fatal(err)
		}
		for y := range 2 {
			var sum float64
			half := b.X[y*len(b.X)/2 : (y+1)*len(b.X)/2]
			for _, v := range half {
				sum += float64(v)
			}
			// The standard deviations are below 4.2, and both elements of a row are equal.
			if got := sum / float64(len(half)); math.Abs(got-want[y]) > 4*4.2/math.Sqrt(2000) {
				t.Errorf("%d labels a class: chains of class %d start around %.3f, want %.3f", perClass, y, got, want[y])
			}
		}
	}
	if got := knownLabels(data, 1); !slices.Equal(got, []int32{0, -1, -1, 1, -1, -1}) {
		t.Errorf("labels with one a class: %v", got)
	}
	data.Labels = slices.Repeat([]int32{-1}, 6)
	if got := knownLabels(data, 0); got != nil {
		t.Errorf("labels of unlabelled rows: %v", got)
	}
	c.Sampler.Start, c.Sampler.Conditional, c.Sampler.Augment.Flip = langevin.StartUniform, false, true
	if _, err := newBuffer(c, data, 1); err == nil {
		t.Error("rows of two elements were taken for pictures")
	}
	data.Shape = []int{1, 1, 2}
	b, err := newBuffer(c, data, 1)
	if err != nil {
		t.Fatal(err)
	}
	x, slots := make([]float32, 200), make([]int, 100)
	b.Draw(x, slots, nil, 0, keyed.New(1, "t").At(0, 0).Rand)
	flipped := 0
	for r, s := range slots {
		if x[2*r] == b.X[2*s+1] && x[2*r] != b.X[2*s] {
			flipped++
		}
	}
	if flipped < 30 || flipped > 70 {
		t.Errorf("%d of 100 entries come out mirrored", flipped)
	}
}
