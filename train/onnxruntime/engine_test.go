package onnxruntime

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	goruntime "runtime"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/train"
	"github.com/jempipe/jempipe/train/gorgonia"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// draw gives parameters that are larger than at the start of training, so that the activations bend, and none of which
// is 0.
func draw(t testing.TB, a model.Arch, seed uint64) model.Params {
	t.Helper()
	p, err := a.Init(func(i int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(i))) })
	must(t, err)
	rng := rand.New(rand.NewPCG(seed, 99))
	for _, x := range p {
		for j := range x.Data {
			x.Data[j] = 1.5*x.Data[j] + 0.1*(rng.Float32()-0.5)
		}
	}
	return p
}

func batch(a model.Arch, n int, seed uint64) train.Batch {
	rng := rand.New(rand.NewPCG(seed, 1))
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = 2*rng.Float32() - 1
		}
		return x
	}
	return train.Batch{X: numbers(n * a.Size()), Alpha: numbers(n), Beta: numbers(n), Gamma: numbers(n * a.Classes)}
}

func engine(t testing.TB, a model.Arch, p model.Params, rows, shards, group int) *Engine {
	t.Helper()
	e, err := New(runtimetest.Open(t), a, p, rows, shards, group)
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

// gradients clears the gradients and computes those of a batch.
func gradients(t testing.TB, e *Engine, b train.Batch) (logits []float32, grads model.Params) {
	t.Helper()
	for _, g := range e.Grads() {
		clear(g.Data)
	}
	z, err := e.Gradients(b)
	must(t, err)
	return slices.Clone(z), e.Grads().Clone()
}

// networks are the shapes that decide which form a gradient takes: strides that fit and that do not, one and many
// channels, few places, pointwise kernels, no padding.
func networks(t testing.TB) map[string]model.Arch {
	t.Helper()
	list := map[string]model.Arch{}
	for _, f := range model.Activations {
		conv, err := model.Convnet([]int{1, 14, 13}, 10, []int{16, 32, 20}, []int{5, 3, 3}, []int{2}, []int{24}, model.Style{Act: f})
		must(t, err)
		list["convnet "+string(f)] = conv
		mlp, err := model.MLP([]int{20}, 5, []int{32, 16}, model.Style{Act: f})
		must(t, err)
		list["mlp "+string(f)] = mlp
	}
	for _, kind := range model.Norms {
		style := model.Style{Act: model.LeakyReLU, Norm: kind, Groups: 4}
		wide, err := model.WideResNet([]int{3, 8, 8}, 5, 10, 1, style)
		must(t, err)
		list["wide_resnet "+string(kind)] = wide
	}
	wide, err := model.WideResNet([]int{3, 12, 12}, 5, 10, 2, model.Style{Act: model.SiLU})
	must(t, err)
	list["wide_resnet"] = wide
	list["pools"] = model.Arch{Name: "pools", Input: []int{2, 12, 12}, Classes: 3, Layers: []model.Layer{
		{Kind: model.Conv, Name: "c1", Out: 16, Kernel: 3, Stride: 1, Pad: 1, NoBias: true},
		{Kind: model.Pool, Name: "p1", Pool: model.MaxPool, Kernel: 2, Stride: 2},
		{Kind: model.Conv, Name: "c2", Out: 16, Kernel: 3, Stride: 1, Pad: 1},
		{Kind: model.Act, Name: "a2", Func: model.GELU},
		{Kind: model.Pool, Name: "p2", Pool: model.AvgPool, Kernel: 3, Stride: 2, Pad: 1},
		{Kind: model.Act, Name: "a3", Func: model.ELU},
		{Kind: model.Pool, Name: "p3", Pool: model.GlobalPool},
		{Kind: model.Flatten, Name: "flat"},
		{Kind: model.Dense, Name: "logits", Out: 3},
	}}
	list["kernels"] = model.Arch{Name: "kernels", Input: []int{3, 9, 8}, Classes: 4, Layers: []model.Layer{
		{Kind: model.Conv, Name: "alpha", Out: 8, Kernel: 1, Stride: 1},
		{Kind: model.Act, Name: "x", Func: model.SiLU},
		{Kind: model.Conv, Name: "gamma", Out: 16, Kernel: 3, Stride: 1, Pad: 1},
		{Kind: model.Act, Name: "b", Func: model.LeakyReLU},
		{Kind: model.Conv, Name: "c3", Out: 32, Kernel: 4, Stride: 2, Pad: 1},
		{Kind: model.Act, Name: "c", Func: model.Tanh},
		{Kind: model.Conv, Name: "c4", Out: 6, Kernel: 3, Stride: 1},
		{Kind: model.Flatten, Name: "flat"},
		{Kind: model.Dense, Name: "logits", Out: 4},
	}}
	return list
}

func TestAgreesWithGorgonia(t *testing.T) {
	for name, a := range networks(t) {
		t.Run(name, func(t *testing.T) {
			const rows, group = 12, 4
			p := draw(t, a, 1)
			q := p.Clone() // each engine moves running statistics of its own
			other, err := gorgonia.New(a, q, rows, 2, group)
			must(t, err)
			defer other.Close()
			e := engine(t, a, p, rows, 2, group)
			if e.Plain() != "" {
				t.Errorf("the weights are not rearranged: %s", e.Plain())
			}
			sizes := []int{rows, 1, 7}
			if a.BatchNorms() {
				sizes = []int{rows, group, 2 * group}
			}
			for _, n := range sizes {
				b := batch(a, n, uint64(n))
				z, grads := gradients(t, e, b)
				for _, g := range other.Grads() {
					clear(g.Data)
				}
				want, err := other.Gradients(b)
				must(t, err)
				close(t, "logits", z, want, 1e-5)
				total := norm(other.Grads())
				for i, g := range other.Grads() {
					if grads[i].Name != g.Name || !slices.Equal(grads[i].Shape, g.Shape) {
						t.Fatalf("gradient %d is %s %v, want %s %v", i, grads[i].Name, grads[i].Shape, g.Name, g.Shape)
					}
					if cancelled(a, g.Name) {
						if size := norm(grads[i : i+1]); !(size <= 1e-4*total) {
							t.Errorf("%s: the norm of the gradient is %.3g, which is 0 but for rounding, that of all is %.3g", g.Name, size, total)
						}
						continue
					}
					close(t, g.Name, grads[i].Data, g.Data, 1e-4)
				}
				for i, x := range p {
					close(t, "parameter "+x.Name, x.Data, q[i].Data, 1e-5)
					for j := range x.Data { // the other batches see other weights
						x.Data[j] *= 1 - 0.1*float32(i%3)
					}
					copy(q[i].Data, x.Data)
				}
			}
		})
	}
}

// cancelled says whether a parameter only shifts channels whose mean a normalisation takes away, so that its gradient
// is 0.
func cancelled(a model.Arch, name string) bool {
	shifts := strings.HasSuffix(name, ".bias") && (strings.Contains(name, "conv") || strings.Contains(name, "shortcut"))
	return shifts && slices.ContainsFunc(a.Layers, func(l model.Layer) bool {
		return l.Kind == model.Norm && (l.Norm == model.BatchNorm || l.Norm == model.InstanceNorm)
	})
}

// norm is the Euclidean norm over all values.
func norm(ps model.Params) float64 {
	var sum float64
	for _, p := range ps {
		for _, v := range p.Data {
			sum += float64(v) * float64(v)
		}
	}
	return math.Sqrt(sum)
}

// close compares the norm of a difference with the norm of what is wanted.
func close(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	var diff, size float64
	for i := range got {
		diff += math.Pow(float64(got[i])-float64(want[i]), 2)
		size += math.Pow(float64(want[i]), 2)
	}
	if !(math.Sqrt(diff) <= tol*math.Sqrt(size)) || size == 0 {
		t.Errorf("%s: norm of the difference %.3g, want at most %g of %.3g", what, math.Sqrt(diff), tol, math.Sqrt(size))
	}
}

func TestAddsToGradients(t *testing.T) {
	a := networks(t)["mlp silu"]
	e := engine(t, a, draw(t, a, 1), 6, 2, 1)
	_, first := gradients(t, e, batch(a, 6, 1))
	_, second := gradients(t, e, batch(a, 4, 2))
	_, err := e.Gradients(batch(a, 6, 1))
	must(t, err)
	for i, g := range e.Grads() {
		sum := slices.Clone(first[i].Data)
		for j, v := range second[i].Data {
			sum[j] += v
		}
		close(t, g.Name, g.Data, sum, 1e-6)
	}
}

func TestEqualInputsGiveEqualBits(t *testing.T) {
	a := networks(t)["convnet silu"]
	b := batch(a, 11, 3)
	var wantZ []float32
	var want model.Params
	for i, procs := range []int{2, 1, 4, 2, 1} {
		old := goruntime.GOMAXPROCS(procs)
		p := draw(t, a, 1)
		for k := range p { // at other addresses
			moved := make([]float32, len(p[k].Data)+i)[i:]
			copy(moved, p[k].Data)
			p[k].Data = moved
		}
		z, g := gradients(t, engine(t, a, p, 11, 3, 1), b)
		goruntime.GOMAXPROCS(old)
		if want == nil {
			wantZ, want = z, g
		}
		if !slices.Equal(z, wantZ) {
			t.Errorf("other logits with GOMAXPROCS %d", procs)
		}
		for k := range g {
			if !slices.Equal(g[k].Data, want[k].Data) {
				t.Errorf("another gradient of %s with GOMAXPROCS %d", g[k].Name, procs)
			}
		}
	}
}

func TestBadCalls(t *testing.T) {
	a := networks(t)["mlp silu"]
	p := draw(t, a, 1)
	rt := runtimetest.Open(t)
	for _, c := range []struct {
		want         string
		params       model.Params
		rows, shards int
	}{
		{"0 rows in 1 shards", p, 0, 1},
		{"3 rows in 0 shards", p, 3, 0},
		{"has 6 parameters, found 0", nil, 3, 1},
		{"has 6 parameters, found 5", p[1:], 3, 1},
	} {
		if _, err := New(rt, a, c.params, c.rows, c.shards, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
	e := engine(t, a, p, 3, 2, 1)
	short := batch(a, 3, 1)
	short.Gamma = short.Gamma[1:]
	for want, b := range map[string]train.Batch{
		"batch of 4 rows, want 1 to 3":                    batch(a, 4, 1),
		"batch of 0 rows":                                 {},
		"batch of 3 rows has 14 values of gamma, want 15": short,
	} {
		if _, err := e.Gradients(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	normed := networks(t)["wide_resnet batch"]
	weights := draw(t, normed, 1)
	if _, err := New(rt, normed, weights, 6, 1, 4); err == nil || !strings.Contains(err.Error(), "groups of 4 rows, want a divisor of the 6") {
		t.Errorf("got %v, want an error that groups do not divide the rows", err)
	}
	if _, err := engine(t, normed, weights, 6, 1, 3).Gradients(batch(normed, 4, 1)); err == nil || !strings.Contains(err.Error(), "want whole groups of 3") {
		t.Errorf("got %v, want an error that a group is not whole", err)
	}
	must(t, e.Close())
	if _, err := e.Gradients(batch(a, 3, 1)); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("got %v, want an error that the engine is closed", err)
	}
}
