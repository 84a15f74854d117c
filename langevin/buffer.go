package langevin

import (
	"fmt"
	"math/rand/v2"

	"github.com/jempipe/jempipe/internal/keyed"
)

// Buffer is the replay buffer of persistent chains (Tieleman 2008; Du and Mordatch 2019): chains go on where an
// earlier training step left them, and now and then start anew from uniform noise.
type Buffer struct {
	X       []float32 // [Size*Dim] states in model space
	Size    int
	Dim     int
	Classes int // > 1: the buffer is Classes equal slices, one a class; else it is one
	Lo, Hi  float64
}

// NewBuffer fills a buffer with uniform noise over [lo, hi]; slot i draws from stream i. With classes above 1 the
// size must be a multiple of it.
func NewBuffer(size, dim, classes int, lo, hi float64, noise keyed.Source) (*Buffer, error) {
	switch {
	case size < 1 || dim < 1:
		return nil, fmt.Errorf("langevin: a buffer of %d chains with %d elements: at least one of each is wanted", size, dim)
	case classes > 1 && size%classes != 0:
		return nil, fmt.Errorf("langevin: a buffer of %d chains cannot be cut into %d equal classes; take a multiple of %d", size, classes, classes)
	case !(lo < hi):
		return nil, fmt.Errorf("langevin: chains cannot start from uniform noise over [%g, %g]", lo, hi)
	}
	b := &Buffer{X: make([]float32, size*dim), Size: size, Dim: dim, Classes: max(classes, 1), Lo: lo, Hi: hi}
	stream := noise.At(0, 0)
	for i := range size {
		noise.Seek(stream, uint64(i), 0)
		b.uniform(b.X[i*dim:(i+1)*dim], stream.Rand)
	}
	return b, nil
}

func (b *Buffer) uniform(x []float32, rng *rand.Rand) {
	for j := range x {
		x[j] = float32(b.Lo + (b.Hi-b.Lo)*rng.Float64())
	}
}

// Draw picks one slot for each row of x [len(slots)*Dim], with replacement, and copies its state; with probability
// restart the row starts from fresh uniform noise instead. classes [len(slots)] restricts each row to the slice of
// its class; nil draws from the whole buffer. It reports how many rows were restarted.
func (b *Buffer) Draw(x []float32, slots []int, classes []int32, restart float64, rng *rand.Rand) int {
	restarted := 0
	slice := b.Size / b.Classes
	for r := range slots {
		if classes != nil {
			slots[r] = int(classes[r])*slice + rng.IntN(slice)
		} else {
			slots[r] = rng.IntN(b.Size)
		}
		row := x[r*b.Dim : (r+1)*b.Dim]
		if rng.Float64() < restart {
			b.uniform(row, rng)
			restarted++
		} else {
			copy(row, b.X[slots[r]*b.Dim:])
		}
	}
	return restarted
}

// Put stores the rows of x in their slots. Where a slot was drawn twice the later row stays.
func (b *Buffer) Put(slots []int, x []float32) {
	for r, s := range slots {
		copy(b.X[s*b.Dim:(s+1)*b.Dim], x[r*b.Dim:])
	}
}

// Mean is the mean element of the buffer. Where it stays near the middle of the range while the data's mean lies
// elsewhere, the chains do not move.
func (b *Buffer) Mean() float64 {
	var sum float64
	for _, v := range b.X {
		sum += float64(v)
	}
	return sum / float64(len(b.X))
}
