package lower

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, m *onnxpb.ModelProto) *ort.Session {
	t.Helper()
	r := runtimetest.Open(t)
	data, err := ir.Marshal(m)
	must(t, err)
	s, err := r.Session(data, ort.SessionOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func tensor(t testing.TB, shape []int, data []float32) *ort.Tensor {
	t.Helper()
	v, err := ort.Float32(sizes(shape), data)
	must(t, err)
	t.Cleanup(v.Close)
	return v
}

// run gives the outputs by name for n rows.
func run(t testing.TB, s *ort.Session, in ...*ort.Tensor) map[string][]float32 {
	t.Helper()
	out := make([]*ort.Tensor, len(s.Outputs()))
	must(t, s.Run(context.Background(), in, out))
	values := map[string][]float32{}
	for i, v := range s.Outputs() {
		values[v.Name] = slices.Clone(out[i].Data())
		out[i].Close()
	}
	return values
}

func convnet(f model.Activation, size int) model.Arch {
	return model.Arch{Name: "convnet", Input: []int{2, size, size - 1}, Classes: 3, Layers: []model.Layer{
		{Kind: model.Conv, Name: "conv1", Out: 3, Kernel: 5, Stride: 2, Pad: 2},
		{Kind: model.Act, Name: "act1", Func: f},
		{Kind: model.Conv, Name: "conv2", Out: 4, Kernel: 3, Stride: 1, Pad: 1},
		{Kind: model.Act, Name: "act2", Func: f},
		{Kind: model.Conv, Name: "conv3", Out: 5, Kernel: 2, Stride: 1, Pad: 0},
		{Kind: model.Act, Name: "act3", Func: f},
		{Kind: model.Conv, Name: "conv4", Out: 5, Kernel: 3, Stride: 2, Pad: 1},
		{Kind: model.Flatten, Name: "flat"},
		{Kind: model.Dense, Name: "fc1", Out: 6},
		{Kind: model.Act, Name: "act4", Func: f},
		{Kind: model.Dense, Name: "fc2", Out: 3},
	}}
}

func mlp(f model.Activation) model.Arch {
	return model.Arch{Name: "mlp", Input: []int{7}, Classes: 4, Layers: []model.Layer{
		{Kind: model.Dense, Name: "fc1", Out: 9},
		{Kind: model.Act, Name: "act1", Func: f},
		{Kind: model.Dense, Name: "fc2", Out: 5},
		{Kind: model.Act, Name: "act2", Func: f},
		{Kind: model.Dense, Name: "fc3", Out: 4},
	}}
}

func params(t testing.TB, a model.Arch) model.Params {
	t.Helper()
	p, err := a.Init(func(i int) *rand.Rand { return rand.New(rand.NewPCG(3, uint64(i))) })
	must(t, err)
	for _, x := range p { // larger than at the start of training, so that the activations bend
		for j := range x.Data {
			x.Data[j] *= 1.5
		}
	}
	return p
}

func samples(n int, shape []int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 0))
	x := make([]float32, n*model.Size(shape))
	for i := range x {
		x[i] = float32(2*rng.Float64() - 1)
	}
	return x
}

func near(t *testing.T, what string, got []float32, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= tol*(1+math.Abs(want[i]))) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// slope is the gradient of a function by central differences in float64.
func slope(x []float64, f func([]float64) float64) []float64 {
	const h = 1e-5
	out := make([]float64, len(x))
	for i, was := range x {
		x[i] = was + h
		up := f(x)
		x[i] = was - h
		out[i] = (up - f(x)) / (2 * h)
		x[i] = was
	}
	return out
}

func architectures() []model.Arch {
	var out []model.Arch
	for _, f := range model.Activations {
		out = append(out, convnet(f, 8), convnet(f, 9), mlp(f))
	}
	return append(out, model.Arch{Name: "linear", Input: []int{5}, Classes: 3, Layers: []model.Layer{{Kind: model.Dense, Name: "fc", Out: 3}}})
}

// The graphs against the plain network and its finite differences.
func TestGraphsAgreeWithThePlainNetwork(t *testing.T) {
	for _, a := range architectures() {
		t.Run(fmt.Sprintf("%s%v%s", a.Name, a.Input, a.Layers[min(1, len(a.Layers)-1)].Func), func(t *testing.T) {
			p := params(t, a)
			const n = 2
			x := samples(n, a.Input, 5)
			width := model.Size(a.Input)
			classifier, err := Classifier(a, p, Options{})
			must(t, err)
			score, err := Score(a, p, Options{})
			must(t, err)
			class, err := ClassScore(a, p, Options{})
			must(t, err)
			plain := load(t, classifier)
			in := tensor(t, append([]int{n}, a.Input...), x)
			target := make([]float32, n*a.Classes)
			for r := range n {
				target[r*a.Classes+(r+1)%a.Classes] = 1
			}
			got, scored := run(t, plain, in), run(t, load(t, score), in)
			joint := run(t, load(t, class), in, tensor(t, []int{n, a.Classes}, target))
			for r := range n {
				row := wide(x[r*width : (r+1)*width])
				z, features := forward(a, p, row)
				cut := func(v []float32, w int) []float32 { return v[r*w : (r+1)*w] }
				near(t, "logits", cut(got["logits"], a.Classes), z, 1e-5)
				near(t, "features", cut(got["features"], len(features)), features, 1e-5)
				near(t, "energy", cut(got["energy"], 1), []float64{-logSumExpOf(z)}, 1e-5)
				near(t, "score logits", cut(scored["logits"], a.Classes), z, 1e-5)
				near(t, "score energy", cut(scored["energy"], 1), []float64{-logSumExpOf(z)}, 1e-5)
				near(t, "score", cut(scored["score"], width), slope(row, func(x []float64) float64 {
					z, _ := forward(a, p, x)
					return logSumExpOf(z)
				}), 1e-4)
				k := (r + 1) % a.Classes
				near(t, "log density", cut(joint["logdensity"], 1), z[k:k+1], 1e-5)
				near(t, "class score", cut(joint["score"], width), slope(row, func(x []float64) float64 {
					z, _ := forward(a, p, x)
					return z[k]
				}), 1e-4)
			}
		})
	}
}

// A row does not depend on its batch beyond the last bits.
func TestBatchSizes(t *testing.T) {
	a := convnet(model.SiLU, 9)
	m, err := Score(a, params(t, a), Options{})
	must(t, err)
	s := load(t, m)
	x := samples(64, a.Input, 9)
	width := model.Size(a.Input)
	full := run(t, s, tensor(t, append([]int{64}, a.Input...), x))
	for _, n := range []int{1, 5} {
		part := run(t, s, tensor(t, append([]int{n}, a.Input...), x[:n*width]))
		near(t, "logits", part["logits"], wide(full["logits"][:n*a.Classes]), 1e-5)
		near(t, "score", part["score"], wide(full["score"][:n*width]), 1e-5)
	}
}

func TestParamsAsInputs(t *testing.T) {
	a := convnet(model.SiLU, 8)
	p := params(t, a)
	fixed, err := Score(a, p, Options{})
	must(t, err)
	free, err := Score(a, nil, Options{ParamsAsInputs: true})
	must(t, err)
	s := load(t, free)
	fixedSession := load(t, fixed)
	in := []*ort.Tensor{tensor(t, append([]int{3}, a.Input...), samples(3, a.Input, 1))}
	want := run(t, fixedSession, in[0])
	names := []string{s.Inputs()[0].Name}
	for _, v := range p {
		names = append(names, v.Name)
		in = append(in, tensor(t, v.Shape, v.Data))
	}
	for i, v := range s.Inputs() {
		if v.Name != names[i] {
			t.Errorf("input %d is %s, want %s", i, v.Name, names[i])
		}
	}
	got := run(t, s, in...)
	for name := range want {
		near(t, name, got[name], wide(want[name]), 1e-5)
	}
	class, err := ClassScore(a, nil, Options{ParamsAsInputs: true})
	must(t, err)
	if got := class.Graph.Input[1].Name; got != InputTarget {
		t.Errorf("second input of the class score is %s", got)
	}
	if n := len(class.Graph.Input); n != 2+len(p) {
		t.Errorf("the class score has %d inputs, want %d", n, 2+len(p))
	}
}

// Energies of very large and very small logits must not overflow: the maximum has to be subtracted first.
func TestEnergyOfExtremeLogits(t *testing.T) {
	a := model.Arch{Name: "linear", Input: []int{3}, Classes: 3, Layers: []model.Layer{{Kind: model.Dense, Name: "fc", Out: 3}}}
	p := model.Params{{Name: "fc.weight", Shape: []int{3, 3}, Data: []float32{1, 0, 0, 0, 1, 0, 0, 0, 1}}, {Name: "fc.bias", Shape: []int{3}, Data: make([]float32, 3)}}
	m, err := Score(a, p, Options{})
	must(t, err)
	x := []float32{1000, 999, -1000, -1000, -1001, -1002, 1e30, 0, 0, -1e30, -1e30, -1e30}
	got := run(t, load(t, m), tensor(t, []int{4, 3}, x))
	for r := range 4 {
		z := wide(x[3*r : 3*r+3])
		lse := logSumExpOf(z)
		near(t, "energy", got["energy"][r:r+1], []float64{-lse}, 1e-6)
		want := make([]float64, 3)
		for k := range z {
			want[k] = math.Exp(z[k] - lse)
		}
		if r < 2 { // beyond, x - logsumexp has no digits left in this reference
			near(t, "score", got["score"][3*r:3*r+3], want, 1e-6)
		}
	}
}

func TestEqualArgumentsGiveEqualBytes(t *testing.T) {
	a := convnet(model.SiLU, 9)
	o := Options{
		Preprocess: &Preprocess{Scale: 1.0 / 255, Mean: []float64{0.4, 0.5}, Std: []float64{0.2, 0.3}, SampleShape: []int{9, 8, 2}},
		Metadata:   map[string]string{"zebra": "1", "apple": "2", "mango": "3", "kiwi": "4"},
	}
	for name, build := range map[string]func(model.Arch, model.Params, Options) (*onnxpb.ModelProto, error){"classifier": Classifier, "score": Score, "class score": ClassScore} {
		var first []byte
		for range 5 {
			m, err := build(a, params(t, a), o)
			must(t, err)
			data, err := ir.Marshal(m)
			must(t, err)
			if first == nil {
				first = data
			}
			if !bytes.Equal(first, data) {
				t.Errorf("%s: two calls give different bytes", name)
			}
			var keys []string
			for _, e := range m.MetadataProps {
				keys = append(keys, e.Key)
			}
			if !slices.IsSorted(keys) || len(keys) != 4 {
				t.Errorf("%s: metadata keys %v", name, keys)
			}
		}
	}
}

func TestSignature(t *testing.T) {
	a := convnet(model.SiLU, 9)
	o := Options{Preprocess: &Preprocess{Scale: 1, Mean: []float64{0}, Std: []float64{1}, SampleShape: []int{9, 8, 2}}}
	m, err := Score(a, params(t, a), o)
	must(t, err)
	if m.ProducerName != "jempipe" || m.IrVersion != 8 || ir.Opset(m) != 17 {
		t.Errorf("producer %s, IR %d, operator set %d", m.ProducerName, m.IrVersion, ir.Opset(m))
	}
	s := load(t, m)
	var lines []string
	for _, v := range append(s.Inputs(), s.Outputs()...) {
		lines = append(lines, fmt.Sprint(v.Name, v.Shape))
	}
	const want = "x[-1 9 8 2] logits[-1 3] energy[-1] score[-1 2 9 8]"
	if got := strings.Join(lines, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Layer names that are those of inputs, outputs or other values must not clash.
func TestAwkwardNames(t *testing.T) {
	a := model.Arch{Name: "awkward", Input: []int{4}, Classes: 2, Layers: []model.Layer{
		{Kind: model.Flatten, Name: "x"},
		{Kind: model.Dense, Name: "logits", Out: 3},
		{Kind: model.Act, Name: "score", Func: model.SiLU},
		{Kind: model.Dense, Name: "energy", Out: 3},
		{Kind: model.Act, Name: "score.sigmoid", Func: model.SiLU},
		{Kind: model.Flatten, Name: "features"},
		{Kind: model.Dense, Name: "x_model", Out: 2},
		{Kind: model.Flatten, Name: "target"},
	}}
	p := params(t, a)
	x := samples(1, a.Input, 2)
	z, features := forward(a, p, wide(x))
	o := Options{Preprocess: &Preprocess{Scale: 2, Mean: []float64{0}, Std: []float64{2}, SampleShape: []int{4}}}
	c, err := Classifier(a, p, o)
	must(t, err)
	got := run(t, load(t, c), tensor(t, []int{1, 4}, x))
	near(t, "logits", got["logits"], z, 1e-5)
	near(t, "features", got["features"], features, 1e-5)
	for _, build := range []func(model.Arch, model.Params, Options) (*onnxpb.ModelProto, error){Score, ClassScore} {
		m, err := build(a, p, o)
		must(t, err)
		load(t, m)
	}
}

func TestWrongParametersAreRefused(t *testing.T) {
	a := mlp(model.SiLU)
	p := params(t, a)
	p[1].Data[0] = float32(math.NaN())
	if _, err := Classifier(a, p, Options{}); err == nil || !strings.Contains(err.Error(), "fc1.bias") {
		t.Errorf("NaN parameter: %v", err)
	}
	if _, err := Score(a, p[:2], Options{}); err == nil {
		t.Error("missing parameters are accepted")
	}
	if _, err := Score(model.Arch{Name: "none"}, nil, Options{}); err == nil {
		t.Error("an empty architecture is accepted")
	}
}
