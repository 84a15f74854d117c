package augment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func stream(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// picture numbers its pixels from 1: 100 c + 10 row + column, all different.
func picture(shape []int) []float32 {
	var x []float32
	for c := range shape[0] {
		for i := range shape[1] {
			for j := range shape[2] {
				x = append(x, float32(1+100*c+10*i+j))
			}
		}
	}
	return x
}

// moved is a picture moved by (dy, dx), after mirroring, by the definition: pixel by pixel from a picture without end.
func moved(x []float32, shape []int, dy, dx int, flip bool, pad string) []float32 {
	h, w := shape[1], shape[2]
	at := func(c, i, j int) float32 {
		if pad == Zero && (i < 0 || i >= h || j < 0 || j >= w) {
			return 0
		}
		for i < 0 || i >= h || j < 0 || j >= w {
			if pad == Reflect {
				i, j = reflected(i, h), reflected(j, w)
			} else {
				i, j = min(max(i, 0), h-1), min(max(j, 0), w-1)
			}
		}
		if flip {
			j = w - 1 - j
		}
		return x[(c*h+i)*w+j]
	}
	var out []float32
	for c := range shape[0] {
		for i := range h {
			for j := range w {
				out = append(out, at(c, i-dy, j-dx))
			}
		}
	}
	return out
}

func reflected(i, n int) int {
	if i < 0 {
		return -i
	}
	if i >= n {
		return 2*(n-1) - i
	}
	return i
}

// Every result is one of the pictures that the configuration allows, and all of these come up, about equally often.
func TestAllAndOnlyTheAllowedPicturesComeUp(t *testing.T) {
	shape := []int{2, 4, 5}
	for _, c := range []Config{
		{Shift: 1}, {Shift: 2, Pad: Edge}, {Shift: 3, Pad: Reflect}, {Shift: 2, Pad: Zero}, {Flip: true}, {Shift: 1, Flip: true, Pad: Reflect},
	} {
		ways := map[string]float64{} // that lead to a picture: some shifts mirror it alike
		for dy := -c.Shift; dy <= c.Shift; dy++ {
			for dx := -c.Shift; dx <= c.Shift; dx++ {
				ways[fmt.Sprint(moved(picture(shape), shape, dy, dx, false, c.Pad))]++
				if c.Flip {
					ways[fmt.Sprint(moved(picture(shape), shape, dy, dx, true, c.Pad))]++
				}
			}
		}
		all := 0.0
		for _, n := range ways {
			all += n
		}
		rng, times := stream(1), map[string]int{}
		for range int(200 * all) {
			x := picture(shape)
			c.Apply(x, shape, rng)
			times[fmt.Sprint(x)]++
			if ways[fmt.Sprint(x)] == 0 {
				t.Fatalf("%+v gives %v, which no shift and flip gives", c, x)
			}
		}
		for x, n := range ways {
			if want := 200 * n; math.Abs(float64(times[x])-want) > 5*math.Sqrt(want) {
				t.Errorf("%+v: %s came up %d times, want about %v", c, x, times[x], want)
			}
		}
	}
}

func TestEqualStreamsMakeEqualChanges(t *testing.T) {
	shape := []int{1, 6, 6}
	c := Config{Shift: 3, Flip: true}
	a, b := picture(shape), picture(shape)
	ra, rb := stream(4), stream(4)
	for range 20 {
		c.Apply(a, shape, ra)
		c.Apply(b, shape, rb)
	}
	if !slices.Equal(a, b) || slices.Equal(a, picture(shape)) {
		t.Errorf("%v and %v: want the same, changed picture", a, b)
	}
}

func TestWhatIsNotWantedStaysAsItIs(t *testing.T) {
	for _, c := range []struct {
		Config
		shape []int
	}{{Config{}, []int{1, 3, 3}}, {Config{Pad: Reflect}, []int{1, 3, 3}}, {Config{Shift: 1, Flip: true}, []int{9}}, {Config{Shift: 5}, []int{1, 3, 3}}} {
		x := picture([]int{1, 3, 3})
		c.Apply(x, c.shape, stream(2))
		if !slices.Equal(x, picture([]int{1, 3, 3})) {
			t.Errorf("%+v with shape %v changed the sample to %v", c.Config, c.shape, x)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		Config
		shape []int
		want  string
	}{
		{Config{Shift: 2, Flip: true, Pad: Zero}, []int{3, 4, 4}, ""},
		{Config{}, []int{7}, ""},
		{Config{Flip: true}, []int{7}, "no pictures"},
		{Config{Shift: 4}, []int{3, 4, 9}, "4x9"},
		{Config{Shift: -1}, []int{3, 4, 9}, "shift is -1"},
		{Config{Pad: "wrap"}, []int{3, 4, 9}, "wrap"},
	} {
		err := c.Check(c.shape)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v for %v: error %v, want %q", c.Config, c.shape, err, c.want)
		}
	}
}
