package lower

import (
	"strings"
	"testing"

	"github.com/jempipe/jempipe/model"
)

// Raw samples in every layout against model-space samples made by hand.
func TestPreprocess(t *testing.T) {
	conv := convnet(model.SiLU, 9) // [2,9,8]
	flat := model.Arch{Name: "flat", Input: []int{12}, Classes: 2, Layers: []model.Layer{{Kind: model.Dense, Name: "fc", Out: 2}}}
	gray := model.Arch{Name: "gray", Input: []int{1, 4, 5}, Classes: 2, Layers: []model.Layer{
		{Kind: model.Conv, Name: "c", Out: 2, Kernel: 3, Stride: 2, Pad: 1}, {Kind: model.Flatten, Name: "f"}, {Kind: model.Dense, Name: "fc", Out: 2}}}
	one, two := []float64{0.5}, []float64{0.4, 0.6}
	twelve := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	for _, c := range []struct {
		name  string
		arch  model.Arch
		p     Preprocess
		place func(i int) (at, channel int) // where raw value i goes in model space
	}{
		{"chw", conv, Preprocess{Scale: 0.1, Mean: two, Std: one, SampleShape: []int{2, 9, 8}}, func(i int) (int, int) { return i, i / 72 }},
		{"hwc", conv, Preprocess{Scale: 0.1, Mean: two, Std: two, SampleShape: []int{9, 8, 2}}, func(i int) (int, int) { return i%2*72 + i/2, i % 2 }},
		{"flat into an image", conv, Preprocess{Scale: 3, Mean: one, Std: two, SampleShape: []int{144}, Layout: "flat"}, func(i int) (int, int) { return i, i / 72 }},
		{"hw", gray, Preprocess{Scale: 0.1, Mean: one, Std: one, SampleShape: []int{4, 5}}, func(i int) (int, int) { return i, 0 }},
		{"hwc gray", gray, Preprocess{Scale: 0.1, Mean: one, Std: one, SampleShape: []int{4, 5, 1}}, func(i int) (int, int) { return i, 0 }},
		{"flat", flat, Preprocess{Scale: 1, Mean: twelve, Std: one, SampleShape: []int{12}}, func(i int) (int, int) { return i, i }},
		{"hw into flat", flat, Preprocess{Scale: 0.1, Mean: one, Std: one, SampleShape: []int{3, 4}}, func(i int) (int, int) { return i, 0 }},
		{"hwc into flat", flat, Preprocess{Scale: 0.1, Mean: two, Std: two, SampleShape: []int{3, 2, 2}, Layout: "hwc"}, func(i int) (int, int) { return i, i % 2 }},
		{"chw into flat", flat, Preprocess{Scale: 0.1, Mean: two, Std: two, SampleShape: []int{2, 3, 2}, Layout: "chw"}, func(i int) (int, int) { return i, i / 6 }},
		{"only layout", gray, Preprocess{Scale: 1, Mean: []float64{0}, Std: []float64{1}, SampleShape: []int{4, 5}}, func(i int) (int, int) { return i, 0 }},
		{"nothing", flat, Preprocess{Scale: 1, Mean: []float64{0}, Std: []float64{1}, SampleShape: []int{12}}, func(i int) (int, int) { return i, 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := params(t, c.arch)
			raw := samples(1, c.arch.Input, 4)
			x := make([]float32, len(raw))
			for i, v := range raw {
				at, ch := c.place(i)
				x[at] = float32((float64(v)*c.p.Scale - c.p.Mean[ch%len(c.p.Mean)]) / c.p.Std[ch%len(c.p.Std)])
			}
			full, err := Score(c.arch, p, Options{Preprocess: &c.p})
			must(t, err)
			bare, err := Score(c.arch, p, Options{})
			must(t, err)
			if extra := len(full.Graph.Node) - len(bare.Graph.Node); extra > 3 {
				t.Errorf("preprocessing takes %d nodes", extra)
			}
			got := run(t, load(t, full), tensor(t, append([]int{1}, c.p.SampleShape...), raw))
			want := run(t, load(t, bare), tensor(t, append([]int{1}, c.arch.Input...), x))
			for _, name := range []string{"logits", "energy", "score"} {
				near(t, name, got[name], wide(want[name]), 1e-5)
			}
		})
	}
}

func TestPreprocessRefusals(t *testing.T) {
	a := convnet(model.SiLU, 9)
	one, two := []float64{1}, []float64{1, 2}
	for _, c := range []struct {
		p    Preprocess
		want string
	}{
		{Preprocess{Scale: 1, Mean: one, Std: one, SampleShape: []int{9, 9}}, "not as many values"},
		{Preprocess{Scale: 1, Mean: one, Std: one, SampleShape: []int{8, 9, 2}}, "the network's input is [2 9 8]"},
		{Preprocess{Scale: 1, Mean: one, Std: one, SampleShape: []int{9, 8, 2}, Layout: "whc"}, "not one of"},
		{Preprocess{Scale: 1, Mean: one, Std: one, SampleShape: []int{9, 8, 2}, Layout: "hw"}, "2 axes"},
		{Preprocess{Scale: 0, Mean: one, Std: one, SampleShape: []int{9, 8, 2}}, "scale is 0"},
		{Preprocess{Scale: 1, Mean: nil, Std: one, SampleShape: []int{9, 8, 2}}, "mean has 0 values"},
		{Preprocess{Scale: 1, Mean: one, Std: []float64{1, 0}, SampleShape: []int{9, 8, 2}}, "std: value 1 is 0"},
		{Preprocess{Scale: 1, Mean: append(two, 3), Std: one, SampleShape: []int{9, 8, 2}}, "each of the 2 channels"},
	} {
		_, err := Classifier(a, params(t, a), Options{Preprocess: &c.p})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.p, err, c.want)
		}
		if err2 := c.p.Check(a.Input); err2 == nil {
			t.Errorf("%+v: Check accepts it", c.p)
		}
	}
}
