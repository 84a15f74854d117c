package gorgonia

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	onnxgraph "github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// onnx gives the outputs of a model for n rows x by name.
func onnx(t testing.TB, m *onnxpb.ModelProto, a model.Arch, x []float32, n int) map[string][]float32 {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	r := runtimetest.Open(t)
	data, err := ir.Marshal(m)
	fail(err)
	s, err := r.Session(data, ort.SessionOptions{})
	fail(err)
	defer s.Close()
	shape := []int64{int64(n)}
	for _, d := range a.Input {
		shape = append(shape, int64(d))
	}
	in, err := ort.Float32(shape, x)
	fail(err)
	defer in.Close()
	out := make([]*ort.Tensor, len(s.Outputs()))
	fail(s.Run(context.Background(), []*ort.Tensor{in}, out))
	values := map[string][]float32{}
	for i, v := range s.Outputs() {
		values[v.Name] = slices.Clone(out[i].Data())
		out[i].Close()
	}
	return values
}

// agree wants two tensors equal to 1e-4 of their norm.
func agree(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	var diff, size float64
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		diff, size = diff+d*d, size+float64(want[i])*float64(want[i])
	}
	if d := math.Sqrt(diff); !(d <= 1e-4*math.Sqrt(size)+1e-9) {
		t.Errorf("%s: the lowerings differ by %.3g of %.3g", what, d, math.Sqrt(size))
	}
}

// checkLowerings compares logits, scores and, with batch normalisation, batch statistics of both lowerings.
func checkLowerings(t testing.TB, a model.Arch) {
	t.Helper()
	const n, group = 6, 3
	p := testParams(t, a, 5)
	x := testBatch(a, n, 6).X
	m, err := onnxgraph.Score(a, p, onnxgraph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	z, grad, err := InputGradient(a, p, x, n)
	if err != nil {
		t.Fatal(err)
	}
	got := onnx(t, m, a, x, n)
	agree(t, "logits", got[onnxgraph.OutputLogits], z)
	agree(t, "score", got[onnxgraph.OutputScore], grad)
	if a.BatchNorms() {
		checkBatchStatistics(t, a, p, n, group)
	}
}

func checkBatchStatistics(t testing.TB, a model.Arch, p model.Params, n, group int) {
	t.Helper()
	before := p.Clone()
	b := testBatch(a, n, 6)
	m, err := onnxgraph.Classifier(a, p, onnxgraph.Options{BatchGroup: group})
	if err != nil {
		t.Fatal(err)
	}
	got := onnx(t, m, a, b.X, n)
	e, err := New(a, p, n, 1, group)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	z, err := e.Gradients(b)
	if err != nil {
		t.Fatal(err)
	}
	agree(t, "logits in training", got[onnxgraph.OutputLogits], z)
	stats, err := onnxgraph.BatchStatistics(a, group)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		mean, _ := before.Lookup(s.Layer + ".running_mean")
		variance, _ := before.Lookup(s.Layer + ".running_var")
		for g := range n / group {
			for c := range s.Channels {
				i := g*s.Channels + c
				mean.Data[c] = .9*mean.Data[c] + .1*got[s.Mean][i]
				variance.Data[c] = .9*variance.Data[c] + .1*got[s.Variance][i]*float32(s.Count)/float32(s.Count-1)
			}
		}
		moved, _ := p.Lookup(mean.Name)
		agree(t, mean.Name, moved.Data, mean.Data)
		moved, _ = p.Lookup(variance.Name)
		agree(t, variance.Name, moved.Data, variance.Data)
	}
}

func TestLoweringsAgree(t *testing.T) {
	cases := layerCases()
	must := func(a model.Arch, err error) model.Arch {
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, f := range model.Activations {
		cases["convnet "+string(f)] = must(model.Convnet([]int{2, 9, 8}, 4, []int{4, 6}, []int{5, 3}, []int{2}, []int{8}, model.Style{Act: f}))
		cases["mlp "+string(f)] = must(model.MLP([]int{1, 2, 5}, 4, []int{12, 8}, model.Style{Act: f}))
	}
	for _, n := range append(slices.Clone(model.Norms), model.NoNorm) {
		s := model.Style{Act: model.SiLU, Norm: n, Groups: 2}
		cases["convnet "+string(n)] = must(model.Convnet([]int{1, 12, 12}, 4, []int{4, 6}, []int{3}, []int{2}, []int{8}, s))
		cases["wide_resnet "+string(n)] = must(model.WideResNet([]int{3, 8, 8}, 5, 16, 1, s))
		if n != model.InstanceNorm {
			cases["mlp "+string(n)] = must(model.MLP([]int{7}, 4, []int{12, 8}, s))
		}
	}
	for name, a := range cases {
		t.Run(name, func(t *testing.T) { checkLowerings(t, a) })
	}
}

// randomArch draws a small network for images: layers that fit, one after the other.
func randomArch(rng *rand.Rand) model.Arch {
	a := model.Arch{Name: "random", Input: []int{1 + rng.IntN(3), 5 + rng.IntN(4), 5 + rng.IntN(4)}, Classes: 2 + rng.IntN(3)}
	shape := a.Input
	for i := range 2 + rng.IntN(5) {
		l := randomLayer(rng, shape[0], 2)
		l.Name = fmt.Sprintf("l%d", i)
		next := a
		next.Layers = append(slices.Clone(a.Layers), l)
		if after, ok := outputOf(next); ok {
			a, shape = next, after
		}
	}
	a.Layers = append(a.Layers, model.Layer{Kind: model.Flatten, Name: "flat"}, model.Layer{Kind: model.Dense, Name: "logits", Out: a.Classes})
	return a
}

// outputOf is the shape behind the last layer, if the layers fit.
func outputOf(a model.Arch) (shape []int, ok bool) {
	a.Layers = append(slices.Clone(a.Layers), model.Layer{Kind: model.Flatten, Name: "f"}, model.Layer{Kind: model.Dense, Name: "d", Out: a.Classes})
	shapes, err := a.Shapes()
	if err != nil {
		return nil, false
	}
	return shapes[len(shapes)-3], true
}

func randomLayer(rng *rand.Rand, channels, depth int) model.Layer {
	kinds := []model.LayerKind{model.Conv, model.Act, model.Pool, model.Norm, model.Residual}
	if depth == 0 {
		kinds = kinds[:4]
	}
	l := model.Layer{Kind: kinds[rng.IntN(len(kinds))]}
	switch l.Kind {
	case model.Conv:
		l.Out, l.Kernel, l.Stride, l.NoBias = 1+rng.IntN(5), 1+rng.IntN(3), 1+rng.IntN(2), rng.IntN(3) == 0
		l.Pad = rng.IntN(l.Kernel)
	case model.Act:
		l.Func = model.Activations[rng.IntN(len(model.Activations))]
	case model.Pool:
		l.Pool = model.Pools[rng.IntN(len(model.Pools))]
		if l.Pool != model.GlobalPool {
			l.Kernel, l.Stride = 1+rng.IntN(3), 1+rng.IntN(3)
			l.Pad = rng.IntN(l.Kernel/2 + 1)
		}
	case model.Norm:
		l.Norm = model.Norms[rng.IntN(len(model.Norms))]
		if l.Norm == model.GroupNorm {
			l.Groups = 1 + rng.IntN(channels)
		}
	case model.Residual:
		for i := range 1 + rng.IntN(2) {
			inner := randomLayer(rng, channels, depth-1)
			if inner.Kind == model.Conv { // that keeps the shape
				inner.Out, inner.Kernel, inner.Stride, inner.Pad = channels, 3, 1, 1
			}
			inner.Name = fmt.Sprintf("b%d", i)
			l.Body = append(l.Body, inner)
		}
		if rng.IntN(2) == 0 {
			l.Shortcut = []model.Layer{{Kind: model.Conv, Name: "short", Out: channels, Kernel: 1, Stride: 1}}
		}
	}
	return l
}

func TestLoweringsAgreeOnRandomNetworks(t *testing.T) {
	kinds := map[model.LayerKind]int{}
	for i := range 60 {
		a := randomArch(stream(9, uint64(i)))
		if err := a.Walk(func(l model.Placed) { kinds[l.Kind]++ }); err != nil {
			t.Fatal(err)
		}
		for _, l := range a.Layers {
			if l.Kind == model.Residual {
				kinds[l.Kind]++
			}
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if checkLowerings(t, a); t.Failed() {
				t.Logf("%+v", a)
			}
		})
	}
	for _, k := range model.LayerKinds {
		if kinds[k] < 10 {
			t.Errorf("only %d layers of kind %s were drawn", kinds[k], k)
		}
	}
}
