package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// The gradient in phases pays where the channels of x fill blocks of 16, where much is computed for each number that has
// to be put in its place, and where these numbers stay in the cache.
const (
	phaseChannels = 16
	phaseNumbers  = 8192 // size of a sample of x up to which it does
)

// phase says how the places of x that leave one rest when divided by the stride get their gradient along an axis: as a
// convolution of dy with every stride-th place of the kernel, backwards from first.
type phase struct{ first, taps, before, after int64 }

// phase is that of the places r, r + stride, ... of an axis. Place a stride + r of x was seen by output place a + q - t
// with place rest + t stride of the kernel, where r + before = q stride + rest.
func (v window) phase(i int, r, in, out int64) (phase, bool) {
	s := v.stride[i]
	q, rest := (r+v.before[i])/s, (r+v.before[i])%s
	taps := max(0, ceilDiv(v.kernel[i]-rest, s))
	p := phase{rest + (taps-1)*s, taps, taps - 1 - q, in/s - out + q}
	return p, taps > 0 && p.before >= 0 && p.after >= 0
}

// inPhases says whether the gradient of x may be computed in phases, and whether that pays: with one thread it is about
// as fast as a transposed convolution, which uses no more than one.
func (c *Context) inPhases(v window, dy, w, x string, group int64) bool {
	in, fixed := c.types[x].spatialSizes()
	out, fixedOut := c.types[dy].spatialSizes()
	shape, known := c.types[w].Static()
	if !fixed || !fixedOut || !known || group != 1 || v.rank() != 2 || v.kernel == nil || v.same != "" || !c.walk.constant[w] ||
		slices.Max(v.dilation) > 1 || slices.Min(v.stride) < 2 || shape[1] < phaseChannels || !c.phasesPay(shape, in) {
		return false
	}
	for i := range in {
		for r := range v.stride[i] {
			if _, ok := v.phase(i, r, in[i], out[i]); !ok || in[i]%v.stride[i] != 0 {
				return false
			}
		}
	}
	return true
}

// phasesPay says so for a weight [M, C, kernel...] and an x of some size. Where refit lets values stay in blocks, they do
// nearly always.
func (c *Context) phasesPay(w, in []int64) bool {
	if c.walk.refit {
		return w[0] >= w[1]
	}
	return w[0] >= 2*w[1] && w[1]*places(in) <= phaseNumbers
}

// phasedInput computes each phase of the gradient of x by a convolution with its part of the kernel, and puts the phases
// in their places: those of a row by a Concat of single numbers, then the rows.
func (c *Context) phasedInput(v window, dy, w, x string) string {
	in, _ := c.types[x].spatialSizes()
	shape, _ := c.types[w].Static()
	channels, height := shape[1], in[0]/v.stride[0]
	var rows []string
	for r := range v.stride[0] {
		var numbers []string
		for k := range v.stride[1] {
			numbers = append(numbers, c.Op("Reshape", c.phaseConv(v, dy, w, x, r, k), c.List(-1, 1)))
		}
		row := c.OpWith("Concat", numbers, ir.Int("axis", 1))
		rows = append(rows, c.Op("Reshape", row, c.List(-1, channels, height, 1, in[1])))
	}
	return c.Op("Reshape", c.OpWith("Concat", rows, ir.Int("axis", 3)), c.List(-1, channels, in[0], in[1]))
}

// phaseConv is the gradient [N, C, in / stride...] of the places (r, k), (r + stride, k), ... of x.
func (c *Context) phaseConv(v window, dy, w, x string, r, k int64) string {
	in, _ := c.types[x].spatialSizes()
	out, _ := c.types[dy].spatialSizes()
	p, _ := v.phase(0, r, in[0], out[0])
	q, _ := v.phase(1, k, in[1], out[1])
	part := c.everyBack(c.everyBack(w, 2, p, v.stride[0]), 3, q, v.stride[1])
	return c.OpWith("Conv", []string{dy, c.Transpose(part, 1, 0, 2, 3)},
		ir.Ints("kernel_shape", p.taps, q.taps), ir.Ints("pads", p.before, q.before, p.after, q.after))
}

// everyBack takes every stride-th place of a phase from a weight.
func (c *Context) everyBack(w string, axis int64, p phase, stride int64) string {
	at := make([]int64, p.taps)
	for i := range at {
		at[i] = p.first - int64(i)*stride
	}
	return c.OpWith("Gather", []string{w, c.List(at...)}, ir.Int("axis", axis))
}
