package lower

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// byHand makes the updates of a Langevin graph one by one in float64 around the score graph.
func byHand(t *testing.T, a model.Arch, p model.Params, w Walk, target *[]float32, x []float32, n int, noise, steps []float32) (end []float64, energy []float64) {
	t.Helper()
	build, density := Score, "energy"
	if target != nil {
		build, density = ClassScore, "logdensity"
	}
	m, err := build(a, p, Options{})
	must(t, err)
	s := load(t, m)
	state := wide(x)
	for k, step := range steps {
		now := make([]float32, len(state))
		for i, v := range state {
			now[i] = float32(v)
		}
		in := []*tensorOf{{append([]int{n}, a.Input...), now}}
		if target != nil {
			in = append(in, &tensorOf{[]int{n, a.Classes}, *target})
		}
		out := run(t, s, tensors(t, in)...)
		for _, e := range out[density] {
			if target != nil {
				e = -e
			}
			energy = append(energy, float64(e))
		}
		std := w.NoiseStd
		if w.Temperature > 0 {
			std = math.Sqrt(2 * w.Temperature * float64(step))
		}
		for i := range state {
			d := float64(out["score"][i])
			if w.GradClip > 0 {
				d = min(max(d, -w.GradClip), w.GradClip)
			}
			state[i] += float64(step)*d + std*float64(noise[k*len(state)+i])
			if w.Clamp {
				state[i] = min(max(state[i], w.Lo), w.Hi)
			}
		}
	}
	return state, energy
}

func TestLangevinGraphMakesTheUpdates(t *testing.T) {
	small := Walk{NoiseStd: 0.05}
	residual, err := model.WideResNet([]int{2, 8, 8}, 3, 10, 1, model.Style{Act: model.SiLU, Norm: model.BatchNorm})
	must(t, err)
	for _, a := range []model.Arch{mlp(model.SiLU), convnet(model.LeakyReLU, 8), convnet(model.Softplus, 8), residual} {
		for name, w := range map[string]Walk{
			"plain":       small,
			"unit noise":  {NoiseStd: 1},
			"no noise":    {},
			"clip":        {NoiseStd: 0.05, GradClip: 0.02},
			"clamp":       {NoiseStd: 0.5, Clamp: true, Lo: -0.7, Hi: 0.6},
			"temperature": {NoiseStd: 9, Temperature: 0.01, GradClip: 0.05, Clamp: true, Lo: -1, Hi: 1},
		} {
			for _, o := range []struct {
				target, asInputs bool
				n, s             int
			}{{false, false, 3, 4}, {true, false, 2, 3}, {false, true, 1, 1}, {true, true, 3, 2}} {
				t.Run(fmt.Sprintf("%s/%s/%v", a.Name, name, o), func(t *testing.T) {
					p := params(t, a)
					m, err := Langevin(a, p, Options{ParamsAsInputs: o.asInputs}, w, o.target)
					must(t, err)
					x := samples(o.n, a.Input, 5)
					noise, steps := samples(o.n*o.s, a.Input, 6), samples(o.s, []int{1}, 7)
					for i := range steps {
						steps[i] = 1.5 + steps[i]
					}
					in := []*tensorOf{{append([]int{o.n}, a.Input...), x}, {append([]int{o.s, o.n}, a.Input...), noise}, {[]int{o.s}, steps}}
					var target *[]float32
					if o.target {
						y := make([]float32, o.n*a.Classes)
						for r := range o.n {
							y[r*a.Classes+r%a.Classes] = 1
						}
						target = &y
						in = append(in, &tensorOf{[]int{o.n, a.Classes}, y})
					}
					if o.asInputs {
						for _, v := range p {
							in = append(in, &tensorOf{v.Shape, v.Data})
						}
					}
					out := run(t, load(t, m), tensors(t, in)...)
					end, energy := byHand(t, a, p, w, target, x, o.n, noise, steps)
					near(t, "x", out["x"], end, 1e-5)
					near(t, "energy", out["energy"], energy, 1e-5)
				})
			}
		}
	}
}

// Layers may be called like the inputs and outputs of the graph around them.
func TestLangevinGraphKeepsNamesApart(t *testing.T) {
	a := mlp(model.ReLU)
	for i, name := range []string{"x0", "noise", "step_size", "walk/noise", "updates"} {
		a.Layers[i].Name = strings.ReplaceAll(name, "/", ".")
	}
	p := params(t, a)
	w := Walk{NoiseStd: 1}
	m, err := Langevin(a, p, Options{}, w, false)
	must(t, err)
	x, noise := samples(2, a.Input, 1), samples(4, a.Input, 2)
	out := run(t, load(t, m), tensors(t, []*tensorOf{{[]int{2, 7}, x}, {[]int{2, 2, 7}, noise}, {[]int{2}, []float32{1, 0.5}}})...)
	end, _ := byHand(t, a, p, w, nil, x, 2, noise, []float32{1, 0.5})
	near(t, "x", out["x"], end, 1e-5)
}

func TestLangevinMetadata(t *testing.T) {
	a := convnet(model.SiLU, 8)
	pre := &Preprocess{Scale: 1. / 255, Mean: []float64{0.5, 0.25}, Std: []float64{0.5}, Layout: "hwc", SampleShape: []int{8, 7, 2}}
	m, err := Langevin(a, params(t, a), Options{Preprocess: pre, Metadata: map[string]string{"fingerprint": "f"}}, Walk{}, false)
	must(t, err)
	meta := ir.Metadata(m)
	var affine struct {
		RawShape     []int `json:"raw_shape"`
		Scale, Shift []float64
		From         []int
	}
	must(t, json.Unmarshal([]byte(meta[MetaAffine]), &affine))
	// Channel 1 of pixel (2, 3) in [C,H,W] and in [H,W,C].
	at, raw := (1*8+2)*7+3, (2*7+3)*2+1
	if meta["fingerprint"] != "f" || affine.From[at] != raw || len(affine.Scale) != 1 || len(affine.Shift) != a.Size() || affine.Shift[at] != -0.5 {
		t.Errorf("metadata %v", meta)
	}
	plain := &Preprocess{Scale: 1, Mean: []float64{8}, Std: []float64{8}, SampleShape: []int{7}}
	text, err := plain.Affine([]int{7})
	if want := `{"raw_shape":[7],"scale":[0.125],"shift":[-1]}`; err != nil || text != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

// The density of a graph that gives logits and score alone is taken from its logits.
func TestAddWalkTakesTheDensityFromLogits(t *testing.T) {
	a := mlp(model.SiLU)
	p := params(t, a)
	for _, target := range []bool{false, true} {
		build := Score
		if target {
			build = ClassScore
		}
		m, err := build(a, p, Options{})
		must(t, err)
		m.Graph.Output = slices.DeleteFunc(m.Graph.Output, func(v *onnxpb.ValueInfoProto) bool {
			return v.Name == OutputEnergy || v.Name == OutputLogDensity
		})
		ir.Prune(m)
		w := Walk{NoiseStd: 1}
		must(t, AddWalk(m, w))
		x, noise, steps := samples(2, a.Input, 1), samples(4, a.Input, 2), []float32{1, 0.5}
		in := []*tensorOf{{[]int{2, 7}, x}, {[]int{2, 2, 7}, noise}, {[]int{2}, steps}}
		var y *[]float32
		if target {
			y = &[]float32{0, 0, 1, 0, 1, 0, 0, 0}
			in = append(in, &tensorOf{[]int{2, 4}, *y})
		}
		out := run(t, load(t, m), tensors(t, in)...)
		end, energy := byHand(t, a, p, w, y, x, 2, noise, steps)
		near(t, "x", out["x"], end, 1e-5)
		near(t, "energy", out["energy"], energy, 1e-5)
	}
}

func TestAddWalkRefusesWhatIsNoScoreGraph(t *testing.T) {
	a := mlp(model.ReLU)
	p := params(t, a)
	score := func() *protoModel { m, err := Score(a, p, Options{}); must(t, err); return m }
	for _, c := range []struct {
		want   string
		m      *protoModel
		w      Walk
		change func(m *protoModel)
	}{
		{"operator set 9", score(), Walk{}, func(m *protoModel) { m.OpsetImport[0].Version = 9 }},
		{"does not begin with the input x", score(), Walk{}, func(m *protoModel) { m.Graph.Input = nil }},
		{"the shape of the input x", score(), Walk{}, func(m *protoModel) { m.Graph.Input[0].Type.GetTensorType().Shape = nil }},
		{"none of energy, logdensity and logits", score(), Walk{}, func(m *protoModel) {
			m.Graph.Node, m.Graph.Output = nil, nil
		}},
		{"clamped to [1, 1]", score(), Walk{Clamp: true, Lo: 1, Hi: 1}, func(*protoModel) {}},
	} {
		c.change(c.m)
		if err := AddWalk(c.m, c.w); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q in it", err, c.want)
		}
	}
}

// tensorOf is the shape and the values of an input.
type tensorOf struct {
	shape []int
	data  []float32
}

func tensors(t *testing.T, in []*tensorOf) []*ort.Tensor {
	t.Helper()
	var out []*ort.Tensor
	for _, v := range in {
		out = append(out, tensor(t, v.shape, v.data))
	}
	return out
}

type protoModel = onnxpb.ModelProto
