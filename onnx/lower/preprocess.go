package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
)

// Preprocess is the map from raw values to model space, built into the graph: model = (raw scale - mean) / std, then
// the layout of the network's input.
type Preprocess struct {
	Scale float64 `json:"scale"`
	// Mean and Std have one number, or one a channel; for a flat sample of a flat network one a value.
	Mean []float64 `json:"mean"`
	Std  []float64 `json:"std"`
	// Layout says what the axes of a raw sample are: hw, hwc, chw or flat. Empty: chw where the sample has the
	// network's shape, else what the number of axes says: 1 flat, 2 hw, 3 hwc. A network with a flat input takes the
	// values in the order of the raw sample, whatever the layout; flat takes them so from a sample of any shape.
	Layout      string `json:"layout"`
	SampleShape []int  `json:"sample_shape"` // shape of one raw sample
}

// image is a raw sample read by its layout.
type image struct {
	layout  string
	c, h, w int // flat: those of the network's input; a flat network has c values of size 1 by 1
}

// Check says whether raw samples of this shape can become inputs of the network.
func (p *Preprocess) Check(a model.Arch) error {
	_, err := p.read(a)
	return err
}

func (p *Preprocess) read(a model.Arch) (image, error) {
	im, err := p.image(a)
	if err != nil {
		return im, err
	}
	if p.Scale == 0 || math.IsNaN(p.Scale) || math.IsInf(p.Scale, 0) {
		return im, fmt.Errorf("scale is %v, want a number other than 0", p.Scale)
	}
	for _, v := range []struct {
		name   string
		values []float64
	}{{"mean", p.Mean}, {"std", p.Std}} {
		if n := len(v.values); n != 1 && n != im.c {
			return im, fmt.Errorf("%s has %d values, want 1 or one for each of the %d channels", v.name, n, im.c)
		}
		for i, x := range v.values {
			if math.IsNaN(x) || math.IsInf(x, 0) || v.name == "std" && x <= 0 {
				return im, fmt.Errorf("%s: value %d is %v", v.name, i, x)
			}
		}
	}
	return im, nil
}

func (p *Preprocess) image(a model.Arch) (image, error) {
	s := p.SampleShape
	if slices.ContainsFunc(s, func(d int) bool { return d < 1 }) || model.Size(s) != model.Size(a.Input) {
		return image{}, fmt.Errorf("a sample of shape %v has not as many values as the network's input %v", s, a.Input)
	}
	im := image{layout: p.Layout}
	if im.layout == "" {
		im.layout = map[int]string{1: "flat", 2: "hw", 3: "hwc"}[len(s)]
		if len(s) == 3 && slices.Equal(s, a.Input) {
			im.layout = "chw"
		}
	}
	axes, ok := map[string]int{"flat": 1, "hw": 2, "hwc": 3, "chw": 3}[im.layout]
	if !ok {
		return im, fmt.Errorf("layout %q is not one of hw, hwc, chw, flat", p.Layout)
	}
	if len(s) != axes && im.layout != "flat" {
		return im, fmt.Errorf("layout %s has %d axes, the sample has shape %v", im.layout, axes, s)
	}
	switch im.layout {
	case "hw":
		im.c, im.h, im.w = 1, s[0], s[1]
	case "hwc":
		im.h, im.w, im.c = s[0], s[1], s[2]
	case "chw":
		im.c, im.h, im.w = s[0], s[1], s[2]
	default:
		im.c, im.h, im.w = model.Size(s), 1, 1
		if len(a.Input) == 3 {
			im.c, im.h, im.w = a.Input[0], a.Input[1], a.Input[2]
		}
	}
	if len(a.Input) == 3 && !slices.Equal(a.Input, []int{im.c, im.h, im.w}) {
		return im, fmt.Errorf("a sample of shape %v with layout %s is [%d,%d,%d], the network's input is %v", s, im.layout, im.c, im.h, im.w, a.Input)
	}
	return im, nil
}

// channel is the channel of a value of the raw sample by its place in row-major order.
func (im image) channel(i int) int {
	if im.layout == "hwc" {
		return i % im.c
	}
	return i / (im.h * im.w)
}

// preprocess adds the nodes from x to model space: at most one for the layout, one multiplication and one addition.
func (b *builder) preprocess() error {
	b.modelX = InputX
	p := b.options.Preprocess
	if p == nil {
		return nil
	}
	im, err := p.read(b.arch)
	if err != nil {
		return err
	}
	if err := b.layout(im, p.SampleShape); err != nil {
		return err
	}
	scale, shift := p.affine(im)
	for _, step := range []struct {
		op      string
		values  []float64
		neutral float64
	}{{"Mul", scale, 1}, {"Add", shift, 0}} {
		if !slices.ContainsFunc(step.values, func(v float64) bool { return v != step.neutral }) {
			continue
		}
		constant, err := b.perChannel("x_"+step.op, im, step.values)
		if err != nil {
			return err
		}
		out := b.g.Unique("preprocess." + step.op)
		b.modelX = b.add(out, step.op, []string{b.modelX, constant}, out)
	}
	if b.modelX == InputX {
		return nil
	}
	n := b.g.Model.Graph.Node[len(b.g.Model.Graph.Node)-1]
	n.Output[0], b.modelX = ModelX, ModelX
	return nil
}

// affine gives model = raw scale + shift: one number for all, or one a channel.
func (p *Preprocess) affine(im image) (scale, shift []float64) {
	n := max(len(p.Mean), len(p.Std))
	scale, shift = make([]float64, n), make([]float64, n)
	for i := range n {
		mean, std := p.Mean[i%len(p.Mean)], p.Std[i%len(p.Std)]
		scale[i], shift[i] = p.Scale/std, 0-mean/std // not -mean: zero has no sign here
	}
	return scale, shift
}

func (b *builder) layout(im image, sample []int) error {
	out := "preprocess.layout"
	switch {
	case slices.Equal(sample, b.arch.Input):
		return nil
	case len(b.arch.Input) == 3 && im.layout == "hwc":
		b.modelX = b.add(out, "Transpose", []string{InputX}, b.g.Unique(out), ir.Ints("perm", 0, 3, 1, 2))
		return nil
	case len(b.arch.Input) == 1:
		b.modelX = b.add(out, "Flatten", []string{InputX}, b.g.Unique(out), ir.Int("axis", 1))
		return nil
	}
	// 0 keeps the batch axis.
	shape, err := b.g.Constant(ir.Int64Tensor("input_shape", append([]int64{0}, sizes(b.arch.Input)...)...))
	if err != nil {
		return err
	}
	b.modelX = b.add(out, "Reshape", []string{InputX, shape}, b.g.Unique(out))
	return nil
}

// perChannel is a constant that broadcasts over the network's input.
func (b *builder) perChannel(name string, im image, values []float64) (string, error) {
	var shape []int64
	data := make([]float32, len(values))
	for i, v := range values {
		data[i] = float32(v)
	}
	switch {
	case len(values) == 1:
	case len(b.arch.Input) == 3:
		shape = []int64{int64(len(values)), 1, 1}
	default:
		shape = []int64{int64(b.arch.Input[0])}
		data = make([]float32, b.arch.Input[0])
		for i := range data {
			data[i] = float32(values[im.channel(i)])
		}
	}
	return b.g.Constant(ir.Float32Tensor(name, shape, data))
}
