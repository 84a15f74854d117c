package intake

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// The gradients of all public classifiers with respect to raw samples, against central differences of the model's own
// logits in random directions. Logits are float32, so that small steps drown in rounding, and networks bend, so that
// large ones miss: of several step sizes the best counts. All else is computed in float64.
func TestDirectionalDerivatives(t *testing.T) {
	const rows, directions = 8, 4
	for _, p := range publicModels {
		if p.noGradient != "" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			c, x := p.open(t, rows)
			must(t, c.AddScore(lower.Energy, true))
			f := &field{t: t, s: session(t, c), shape: c.Preprocess.SampleShape, rng: rand.New(rand.NewPCG(1, 2))}
			width := size(f.shape)
			reach := f.disturb(x)
			score := outputs(t, f.s, []string{"score"}, x, rows, f.shape)[0]
			worst := 0.0
			for row := range rows {
				at := row * width
				for range directions {
					worst = max(worst, f.compare(x[at:at+width], score[at:at+width], reach))
				}
			}
			t.Logf("largest relative difference %.2g", worst)
			if !(worst <= 1e-2) {
				t.Errorf("the derivative in a direction is off by %.3g of its size", worst)
			}
		})
	}
}

// field is the readout of a model as a function of one sample.
type field struct {
	t     *testing.T
	s     *ort.Session
	shape []int
	rng   *rand.Rand
}

func (f *field) at(x []float32) float64 {
	return lower.Energy.Of(outputs(f.t, f.s, []string{"logits"}, x, 1, f.shape)[0])
}

// disturb moves all values a little, off the kinks that lie on constant backgrounds, and gives the size of the values.
func (f *field) disturb(x []float32) (reach float64) {
	for _, v := range x {
		reach = max(reach, math.Abs(float64(v)))
	}
	for i := range x {
		x[i] += float32(reach / 64 * (2*f.rng.Float64() - 1))
	}
	return reach
}

// compare moves the sample in a random direction in which no value lowers the readout, if score is right: derivatives do
// not cancel, so that the sum of them has the digits that each has. It gives how far that sum is from the best of the
// central differences, relative to the larger of both.
func (f *field) compare(x, score []float32, reach float64) float64 {
	direction := make([]float64, len(x))
	for i := range direction {
		direction[i] = math.Copysign(f.rng.NormFloat64(), float64(score[i]))
	}
	best := math.Inf(1)
	up, down := make([]float32, len(x)), make([]float32, len(x))
	for h := reach / 4; h > reach*0x1p-20; h /= 2 {
		want := 0.0
		for i, v := range x {
			up[i], down[i] = float32(float64(v)+h*direction[i]), float32(float64(v)-h*direction[i])
			want += float64(score[i]) * (float64(up[i]) - float64(down[i])) // the step as float32 has it
		}
		got := f.at(up) - f.at(down)
		best = min(best, math.Abs(got-want)/max(math.Abs(want), math.Abs(got), math.SmallestNonzeroFloat64))
	}
	return best
}
