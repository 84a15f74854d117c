// Package augment changes pictures at random in ways that leave their class as it is. Training rows and entries of the
// replay buffer go through the same code.
package augment

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Config says what may happen to a picture. The zero value changes nothing.
type Config struct {
	Shift int    `yaml:"shift" json:"shift" min:"0" default:"0" doc:"Move pictures by up to so many pixels in each direction, all distances alike likely. 0: not at all."`
	Flip  bool   `yaml:"flip" json:"flip" default:"false" doc:"Mirror pictures, left for right, with probability 1/2. Not for digits and letters."`
	Pad   string `yaml:"pad" json:"pad" enum:"edge|reflect|zero" default:"edge" doc:"What stands where a moved picture leaves a gap. edge: the nearest pixel; reflect: the picture mirrored at its outermost pixel; zero: 0 in model space."`
}

// Ways of filling the gap that a shift leaves.
const (
	Edge    = "edge"
	Reflect = "reflect"
	Zero    = "zero"
)

// Active says whether pictures can change at all.
func (c Config) Active() bool { return c.Shift > 0 || c.Flip }

// Check says whether samples of a shape can be changed so: [C,H,W], larger than the shift.
func (c Config) Check(shape []int) error {
	if c.Pad != "" && !slices.Contains([]string{Edge, Reflect, Zero}, c.Pad) {
		return fmt.Errorf("pad is %q, want edge, reflect or zero", c.Pad)
	}
	if c.Shift < 0 {
		return fmt.Errorf("shift is %d, want 0 or more", c.Shift)
	}
	if !c.Active() {
		return nil
	}
	if len(shape) != 3 {
		return fmt.Errorf("samples of shape %v are no pictures: [channels, height, width] is wanted; set shift: 0 and flip: false", shape)
	}
	if c.Shift >= shape[1] || c.Shift >= shape[2] {
		return fmt.Errorf("a shift of %d pixels would leave nothing of pictures of %dx%d", c.Shift, shape[1], shape[2])
	}
	return nil
}

// Apply changes one picture x, row-major in model space, in place. shape is [C,H,W] and has passed Check; samples of
// another shape stay as they are. All channels move together. Equal streams make equal changes.
func (c Config) Apply(x []float32, shape []int, rng *rand.Rand) {
	if !c.Active() || c.Check(shape) != nil || len(x) != shape[0]*shape[1]*shape[2] {
		return
	}
	dy, dx, flip := 0, 0, false
	if c.Shift > 0 {
		dy, dx = rng.IntN(2*c.Shift+1)-c.Shift, rng.IntN(2*c.Shift+1)-c.Shift
	}
	if c.Flip {
		flip = rng.IntN(2) == 1
	}
	if dy == 0 && dx == 0 && !flip {
		return
	}
	h, w := shape[1], shape[2]
	rows, columns := c.sources(h, dy, false), c.sources(w, dx, flip)
	plane := make([]float32, h*w)
	for at := 0; at < len(x); at += h * w {
		to := x[at : at+h*w]
		copy(plane, to)
		for i, from := range rows {
			move(to[i*w:(i+1)*w], plane, from*w, columns)
		}
	}
}

// move fills a row with the pixels of the plane at base plus each column; negative ones are 0.
func move(row, plane []float32, base int, columns []int) {
	for j, from := range columns {
		row[j] = 0
		if base >= 0 && from >= 0 {
			row[j] = plane[base+from]
		}
	}
}

// sources gives for each place along an axis of n pixels the place that its pixel comes from, or -1 for none: the axis
// is mirrored where flip is set and moved by d after that.
func (c Config) sources(n, d int, flip bool) []int {
	from := make([]int, n)
	for i := range from {
		at := i - d
		switch {
		case at >= 0 && at < n:
		case c.Pad == Zero:
			at = -1
		case c.Pad == Reflect && at < 0:
			at = -at
		case c.Pad == Reflect:
			at = 2*(n-1) - at
		default:
			at = min(max(at, 0), n-1)
		}
		if flip && at >= 0 {
			at = n - 1 - at
		}
		from[i] = at
	}
	return from
}
