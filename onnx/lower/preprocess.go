package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
)

// Preprocess is the map from raw values to model space, built into the graph: model = (raw scale - mean) / std, in the
// layout of the network's input.
type Preprocess struct {
	Scale float64 `json:"scale"`
	// Mean and Std have one number, or one a channel; for a flat sample of a flat network one a value.
	Mean []float64 `json:"mean"`
	Std  []float64 `json:"std"`
	// Layout says what the axes of a raw sample are: hw, hwc, chw or flat. Empty: chw where the sample has the
	// network's shape, else what the number of axes says: 1 flat, 2 hw, 3 hwc. flat takes the values in their order from a
	// sample of any shape.
	Layout      string `json:"layout"`
	SampleShape []int  `json:"sample_shape"` // shape of one raw sample
	// InputLayout is that of the network's input: chw or hwc. Empty: chw where it has three axes; otherwise the network
	// takes the values in the order of the raw sample. A network with a flat input may state in which order it wants them.
	InputLayout string `json:"input_layout,omitempty"`
}

// image is a raw sample read by its layout.
type image struct {
	layout  string
	input   string // layout of the network's input; empty: the raw order
	c, h, w int    // flat: those of the network's input; a flat network has c values of size 1 by 1
}

// Check says whether raw samples of this shape can become inputs of a network that takes samples of shape input.
func (p *Preprocess) Check(input []int) error {
	_, err := p.read(input)
	return err
}

func (p *Preprocess) read(input []int) (image, error) {
	im, err := p.image(input)
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

func (p *Preprocess) image(input []int) (image, error) {
	s := p.SampleShape
	if slices.ContainsFunc(s, func(d int) bool { return d < 1 }) || model.Size(s) != model.Size(input) {
		return image{}, fmt.Errorf("a sample of shape %v has not as many values as the network's input %v", s, input)
	}
	im := image{layout: p.Layout, input: p.InputLayout}
	if im.layout == "" {
		im.layout = map[int]string{1: "flat", 2: "hw", 3: "hwc"}[len(s)]
		if len(s) == 3 && slices.Equal(s, input) && im.input != "hwc" {
			im.layout = "chw"
		}
	}
	if im.input == "" && len(input) == 3 {
		im.input = "chw"
	}
	axes, ok := map[string]int{"flat": 1, "hw": 2, "hwc": 3, "chw": 3}[im.layout]
	if !ok {
		return im, fmt.Errorf("layout %q is not one of hw, hwc, chw, flat", p.Layout)
	}
	if !slices.Contains([]string{"", "chw", "hwc"}, im.input) {
		return im, fmt.Errorf("the network's layout %q is not one of chw, hwc", im.input)
	}
	if len(s) != axes && im.layout != "flat" {
		return im, fmt.Errorf("layout %s has %d axes, the sample has shape %v", im.layout, axes, s)
	}
	return im, im.sizes(s, input)
}

// sizes reads channels, height and width, and compares them with the network's input.
func (im *image) sizes(s, input []int) error {
	switch im.layout {
	case "hw":
		im.c, im.h, im.w = 1, s[0], s[1]
	case "hwc":
		im.h, im.w, im.c = s[0], s[1], s[2]
	case "chw":
		im.c, im.h, im.w = s[0], s[1], s[2]
	default:
		im.c, im.h, im.w = model.Size(s), 1, 1
		switch {
		case len(input) == 3 && im.input == "hwc":
			im.h, im.w, im.c = input[0], input[1], input[2]
		case len(input) == 3:
			im.c, im.h, im.w = input[0], input[1], input[2]
		default:
			im.input = "" // there is only one order
		}
	}
	want := []int{im.c, im.h, im.w}
	if im.input == "hwc" {
		want = []int{im.h, im.w, im.c}
	}
	if len(input) == 3 && !slices.Equal(input, want) {
		return fmt.Errorf("a sample of shape %v with layout %s is %v, the network's input is %v", s, im.layout, want, input)
	}
	return nil
}

// place gives for a value of the network's input, by its place in row-major order, the place of the raw value that it
// is made of, and its channel.
func (im image) place(i int) (raw, channel int) {
	pixels := im.h * im.w
	order := im.input
	if order == "" || im.layout == "flat" {
		order = im.rawOrder()
	}
	pixel := i % pixels
	channel = i / pixels
	if order == "hwc" {
		pixel, channel = i/im.c, i%im.c
	}
	if im.rawOrder() == "hwc" {
		return pixel*im.c + channel, channel
	}
	return channel*pixels + pixel, channel
}

// rawOrder is chw or hwc; flat samples lie as the network wants them.
func (im image) rawOrder() string {
	switch {
	case im.layout == "hwc", im.layout == "flat" && im.input == "hwc":
		return "hwc"
	}
	return "chw"
}

// moves says whether the network's input has the values in another order than the raw sample.
func (im image) moves() bool {
	return im.input != "" && im.input != im.rawOrder() && im.c > 1 && im.h*im.w > 1
}

// Map gives, for each value of a network's input in row-major order, the place of the raw value that it is made of and
// the numbers with input = raw scale + shift.
func (p *Preprocess) Map(input []int) (from []int, scale, shift []float64, err error) {
	im, err := p.read(input)
	if err != nil {
		return nil, nil, nil, err
	}
	a, b := p.affine()
	n := model.Size(input)
	from, scale, shift = make([]int, n), make([]float64, n), make([]float64, n)
	for i := range n {
		raw, channel := im.place(i)
		from[i], scale[i], shift[i] = raw, a[channel%len(a)], b[channel%len(b)]
	}
	return from, scale, shift, nil
}

// affine gives model = raw scale + shift: one number for all, or one a channel.
func (p *Preprocess) affine() (scale, shift []float64) {
	n := max(len(p.Mean), len(p.Std))
	scale, shift = make([]float64, n), make([]float64, n)
	for i := range n {
		mean, std := p.Mean[i%len(p.Mean)], p.Std[i%len(p.Std)]
		scale[i], shift[i] = p.Scale/std, 0-mean/std // not -mean: zero has no sign here
	}
	return scale, shift
}

// Add adds the nodes from the raw samples x, float32 [N, SampleShape...], to model space [N, input...]: at most two for
// the layout, one multiplication and one addition. The result is called to, except where nothing has to be done: then
// it is x.
func (p *Preprocess) Add(g *ir.Graph, x string, input []int, to string) (string, error) {
	im, err := p.read(input)
	if err != nil {
		return "", err
	}
	at, err := p.arrange(g, im, x, input)
	if err != nil {
		return "", err
	}
	scale, shift := p.affine()
	for _, step := range []struct {
		op      string
		values  []float64
		neutral float64
	}{{"Mul", scale, 1}, {"Add", shift, 0}} {
		if !slices.ContainsFunc(step.values, func(v float64) bool { return v != step.neutral }) {
			continue
		}
		constant, err := perChannel(g, "x_"+step.op, im, input, step.values)
		if err != nil {
			return "", err
		}
		at = addNode(g, "preprocess."+step.op, step.op, []string{at, constant})
	}
	if at == x {
		return x, nil
	}
	return to, g.Rename(at, to)
}

func addNode(g *ir.Graph, name, op string, inputs []string) string {
	out := g.Unique(name)
	g.AddNamed(out, op, inputs, []string{out})
	return out
}

// arrange brings raw samples into the layout and shape of the network's input.
func (p *Preprocess) arrange(g *ir.Graph, im image, x string, input []int) (string, error) {
	name, shape := "preprocess.layout", p.SampleShape
	if im.moves() {
		perm := []int64{0, 3, 1, 2}
		shape = []int{im.c, im.h, im.w}
		if im.input == "hwc" {
			perm, shape = []int64{0, 2, 3, 1}, []int{im.h, im.w, im.c}
		}
		out := g.Unique(name)
		g.AddNamed(out, "Transpose", []string{x}, []string{out}, ir.Ints("perm", perm...))
		x = out
	}
	if slices.Equal(shape, input) {
		return x, nil
	}
	out := g.Unique(name)
	if len(input) == 1 {
		g.AddNamed(out, "Flatten", []string{x}, []string{out}, ir.Int("axis", 1))
		return out, nil
	}
	// 0 keeps the batch axis.
	target, err := g.Constant(ir.Int64Tensor("input_shape", append([]int64{0}, sizes(input)...)...))
	if err != nil {
		return "", err
	}
	g.AddNamed(out, "Reshape", []string{x, target}, []string{out})
	return out, nil
}

// perChannel is a constant that broadcasts over the network's input. One number gets as many dimensions as a sample:
// ONNX Runtime takes fifty times as long for a value whose last axis has size 1 with a constant of fewer than two.
func perChannel(g *ir.Graph, name string, im image, input []int, values []float64) (string, error) {
	var shape []int64
	data := make([]float32, len(values))
	for i, v := range values {
		data[i] = float32(v)
	}
	switch {
	case len(values) == 1:
		shape = slices.Repeat([]int64{1}, len(input))
	case len(input) == 3 && im.input == "hwc":
		shape = []int64{int64(len(values))}
	case len(input) == 3:
		shape = []int64{int64(len(values)), 1, 1}
	default:
		shape = sizes(input)
		data = make([]float32, model.Size(input))
		for i := range data {
			_, channel := im.place(i)
			data[i] = float32(values[channel])
		}
	}
	return g.Constant(ir.Float32Tensor(name, shape, data))
}
