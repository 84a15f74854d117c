package langevin

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/jempipe/jempipe/internal/augment"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/model"
)

// BufferConfig describes where the chains of a training step begin.
type BufferConfig struct {
	Size    int            // persistent chains; 0: none, every chain starts anew in every step
	Shape   []int          // of a state in model space
	Classes int            // > 1: the buffer is Classes equal slices, one a class; else it is one
	Start   Start          // of new chains
	Augment augment.Config // what happens to the state of a chain that goes on
}

// Buffer is the replay buffer of persistent chains (Tieleman 2008; Du and Mordatch 2019): chains go on where an
// earlier training step left them, and now and then start anew. Without slots it gives short-run chains, which all
// start anew (Nijkamp, Hill, Zhu and Wu 2019).
type Buffer struct {
	X       []float32 // [Size*Dim] states in model space
	Size    int       // slots; 0: none
	Dim     int
	Classes int // slices of the slots

	start   Start
	shape   []int
	augment augment.Config
}

// NewBuffer fills the slots from the start distribution; slot i draws from stream i of the noise, for the class of its
// slice where there are several. With classes above 1 the size must be a multiple of it.
func NewBuffer(cfg BufferConfig, noise keyed.Source) (*Buffer, error) {
	dim := model.Size(cfg.Shape)
	switch {
	case cfg.Size < 0 || len(cfg.Shape) == 0 || dim < 1:
		return nil, fmt.Errorf("langevin: a buffer of %d chains of shape %v: 0 chains or more with at least one element are wanted", cfg.Size, cfg.Shape)
	case cfg.Classes > 1 && cfg.Size%cfg.Classes != 0:
		return nil, fmt.Errorf("langevin: a buffer of %d chains cannot be cut into %d equal classes; take a multiple of %d", cfg.Size, cfg.Classes, cfg.Classes)
	case cfg.Start == nil:
		return nil, fmt.Errorf("langevin: a buffer needs a distribution that chains start from")
	}
	if u, ok := cfg.Start.(Uniform); ok && !(u.Lo < u.Hi) {
		return nil, fmt.Errorf("langevin: chains cannot start from uniform noise over [%g, %g]", u.Lo, u.Hi)
	}
	if err := cfg.Augment.Check(cfg.Shape); err != nil {
		return nil, fmt.Errorf("langevin: augmentation of buffer entries: %w", err)
	}
	b := &Buffer{X: make([]float32, cfg.Size*dim), Size: cfg.Size, Dim: dim, Classes: max(cfg.Classes, 1),
		start: cfg.Start, shape: cfg.Shape, augment: cfg.Augment}
	stream := noise.At(0, 0)
	for i := range b.Size {
		noise.Seek(stream, uint64(i), 0)
		class := int32(-1)
		if b.Classes > 1 {
			class = int32(i / (b.Size / b.Classes))
		}
		b.start.Draw(b.X[i*dim:(i+1)*dim], class, stream.Rand)
	}
	return b, nil
}

// Draw gives the rows of x [len(slots)*Dim] their first states. Each row gets a slot, picked with replacement, and a
// copy of its state, shifted and flipped as configured; with probability restart, and always without slots, it starts
// anew instead. classes [len(slots)] restricts each row to the slice of its class; nil draws from the whole buffer. It
// reports how many rows started anew.
func (b *Buffer) Draw(x []float32, slots []int, classes []int32, restart float64, rng *rand.Rand) (anew int) {
	slice := b.Size / b.Classes
	for r := range slots {
		class, first, n := int32(-1), 0, b.Size
		if classes != nil {
			class = classes[r]
			if b.Classes > 1 {
				first, n = int(class)*slice, slice
			}
		}
		slots[r] = -1
		if n > 0 {
			slots[r] = first + rng.IntN(n)
		}
		row := x[r*b.Dim : (r+1)*b.Dim]
		if n == 0 || rng.Float64() < restart {
			b.start.Draw(row, class, rng)
			anew++
			continue
		}
		copy(row, b.X[slots[r]*b.Dim:])
		b.augment.Apply(row, b.shape, rng)
	}
	return anew
}

// Put stores the rows of x in their slots. Where a slot was drawn twice the later row stays.
func (b *Buffer) Put(slots []int, x []float32) {
	for r, s := range slots {
		if s >= 0 {
			copy(b.X[s*b.Dim:(s+1)*b.Dim], x[r*b.Dim:])
		}
	}
}

// Mean is the mean element of the buffer, NaN without slots. Where it stays near the middle of the range while the
// data's mean lies elsewhere, the chains do not move.
func (b *Buffer) Mean() float64 {
	if len(b.X) == 0 {
		return math.NaN()
	}
	var sum float64
	for _, v := range b.X {
		sum += float64(v)
	}
	return sum / float64(len(b.X))
}
