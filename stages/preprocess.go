package stages

import (
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/lower"
)

// Preprocess is how raw values become model space: (raw * scale - mean) / std, then channels first.
type Preprocess struct {
	Scale  float64   `yaml:"scale" above:"0" default:"1" doc:"Factor applied to raw values first."`
	Mean   []float64 `yaml:"mean" doc:"Subtracted after scaling: one number, or one a channel. Default: the middle of the data set's range, so that model space is [-1,1]."`
	Std    []float64 `yaml:"std" above:"0" doc:"Divisor after that: one number, or one a channel. Default: half the width of the data set's range."`
	Layout string    `yaml:"layout" enum:"auto|hw|hwc|chw|flat" default:"auto" doc:"How a raw sample lies in memory. auto: [D] is flat, [H,W] is hw, [H,W,C] with 1, 3 or 4 channels is hwc, other three dimensions are chw."`
}

// resolve fills in what the data set decides and gives the shape of a sample in model space.
func (p Preprocess) resolve(info datasets.Info) (lower.Preprocess, []int, error) {
	where := "data." + info.Name
	out := lower.Preprocess{Scale: p.Scale, Mean: p.Mean, Std: p.Std, Layout: p.Layout, SampleShape: info.Shape}
	if (p.Mean == nil) != (p.Std == nil) {
		return out, nil, fault.New(fault.Config, where, "preprocess has mean or std alone").Do("give both, or neither to scale the data set's range to [-1,1]")
	}
	if p.Mean == nil {
		if !(info.Lo < info.Hi) {
			return out, nil, fault.New(fault.Config, where, "the range of raw values is not known, so they cannot be scaled to [-1,1]").
				Do("state range: [low, high] at the data set, or preprocess.mean and preprocess.std")
		}
		out.Mean = []float64{p.Scale * (info.Lo + info.Hi) / 2}
		out.Std = []float64{p.Scale * (info.Hi - info.Lo) / 2}
	}
	if out.Layout == "auto" || out.Layout == "" {
		out.Layout = guessLayout(info.Shape)
	}
	input, err := modelShape(out.Layout, info.Shape)
	if err != nil {
		return out, nil, fault.New(fault.Config, where, "preprocess: %v", err)
	}
	for _, v := range []struct {
		key    string
		values []float64
	}{{"mean", out.Mean}, {"std", out.Std}} {
		if len(v.values) != 1 && (len(input) != 3 || len(v.values) != input[0]) {
			return out, nil, fault.New(fault.Config, where, "preprocess.%s has %d numbers, want one, or one for each channel of %v", v.key, len(v.values), input)
		}
	}
	return out, input, nil
}

func guessLayout(shape []int) string {
	switch len(shape) {
	case 2:
		return "hw"
	case 3:
		if slices.Contains([]int{1, 3, 4}, shape[2]) {
			return "hwc"
		}
		return "chw"
	}
	return "flat"
}

func modelShape(layout string, shape []int) ([]int, error) {
	switch {
	case layout == "flat":
		return []int{model.Size(shape)}, nil
	case layout == "hw" && len(shape) == 2:
		return []int{1, shape[0], shape[1]}, nil
	case layout == "hwc" && len(shape) == 3:
		return []int{shape[2], shape[0], shape[1]}, nil
	case layout == "chw" && len(shape) == 3:
		return shape, nil
	}
	return nil, fmt.Errorf("layout %s does not fit samples of shape %v", layout, shape)
}

// space maps between raw values and model space.
type space struct {
	from         []int // by place in model space: the place in the raw sample
	scale, shift []float64
}

func newSpace(p lower.Preprocess, input []int) (space, error) {
	from, scale, shift, err := p.Map(input)
	return space{from, scale, shift}, err
}

// width is the number of elements of a sample.
func (s space) width() int { return len(s.from) }

// model turns raw samples [n,...] into model space.
func (s space) model(raw []float32) []float32 {
	out := make([]float32, len(raw))
	for base := 0; base < len(raw); base += s.width() {
		for i, at := range s.from {
			out[base+i] = float32(float64(raw[base+at])*s.scale[i] + s.shift[i])
		}
	}
	return out
}

// raw turns samples in model space into raw values in the layout of the data set.
func (s space) raw(x []float32) []float32 {
	out := make([]float32, len(x))
	for base := 0; base < len(x); base += s.width() {
		for i, at := range s.from {
			out[base+at] = float32((float64(x[base+i]) - s.shift[i]) / s.scale[i])
		}
	}
	return out
}
