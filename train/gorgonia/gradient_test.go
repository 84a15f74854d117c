package gorgonia

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/jempipe/jempipe/model"
)

func gradientCases() map[string]model.Arch {
	cases := map[string]model.Arch{
		"softmax regression":    testArch([]int{7}, dense(4)),
		"one class":             testArch([]int{3}, dense(1)),
		"one input":             testArch([]int{1}, dense(3)),
		"act first":             testArch([]int{6}, act(model.Tanh), dense(5), act(model.SiLU), dense(3)),
		"flatten first":         testArch([]int{2, 3, 4}, flat(), dense(5), act(model.Softplus), dense(3)),
		"flatten a vector":      testArch([]int{5}, flat(), dense(4), flat(), act(model.SiLU), dense(2)),
		"conv to logits":        testArch([]int{3, 2, 2}, conv(4, 2, 1, 0), flat(), dense(4)),
		"two convs":             testArch([]int{2, 7, 5}, conv(3, 3, 2, 1), act(model.SiLU), conv(5, 3, 1, 1), act(model.LeakyReLU), flat(), dense(6), act(model.Tanh), dense(4)),
		"stride above kernel":   testArch([]int{2, 8, 7}, conv(3, 2, 3, 0), act(model.SiLU), conv(3, 1, 2, 0), flat(), dense(3)),
		"padding above kernel":  testArch([]int{1, 3, 4}, conv(2, 2, 2, 3), act(model.SiLU), conv(2, 3, 2, 2), flat(), dense(3)),
		"wider than the blocks": testArch([]int{1, 17, 19}, conv(2, 3, 1, 1), act(model.SiLU), conv(1, 3, 2, 1), flat(), dense(3)),
	}
	for name, a := range layerCases() {
		cases[name] = a
	}
	for _, f := range model.Activations {
		cases["act "+string(f)] = testArch([]int{5}, dense(6), act(f), dense(4))
	}
	for _, k := range []int{1, 3, 5} {
		for _, s := range []int{1, 2} {
			for _, p := range []int{0, 1, 2} {
				cases[fmt.Sprintf("conv kernel %d stride %d pad %d", k, s, p)] =
					testArch([]int{2, 6, 9}, conv(3, k, s, p), act(model.SiLU), flat(), dense(3))
				cases[fmt.Sprintf("second conv kernel %d stride %d pad %d", k, s, p)] =
					testArch([]int{3, 9, 6}, conv(4, 1, 1, 0), act(model.Tanh), conv(2, k, s, p), flat(), dense(3))
			}
		}
	}
	return cases
}

// kinked activations have no derivative at 0, which a difference could step over.
const tolerance = 1e-3

func closeEnough(t *testing.T, what string, got, want []float64) {
	t.Helper()
	scale := 0.0
	for _, v := range want {
		scale = math.Max(scale, math.Abs(v))
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if d := math.Abs(got[i] - want[i]); !(d <= tolerance*(scale*.1+math.Abs(want[i]))+1e-6) {
			t.Fatalf("%s[%d] = %g, want %g (largest %g)", what, i, got[i], want[i], scale)
		}
	}
}

// layerCases have the layers of larger networks, most of them with one before, so that their input gradient matters, and
// one behind that mixes positions.
func layerCases() map[string]model.Arch {
	image := []int{2, 6, 5}
	wrap := func(l ...model.Layer) model.Arch {
		return testArch(image, append(append(list(conv(4, 3, 1, 1)), l...), act(model.SiLU), flat(), dense(3))...)
	}
	cases := map[string]model.Arch{
		"no bias":              testArch(image, nobias(conv(3, 3, 2, 1)), act(model.SiLU), flat(), nobias(dense(4)), act(model.ELU), dense(3)),
		"pool max":             wrap(pool(model.MaxPool, 2, 2, 0)),
		"pool max overlapping": wrap(pool(model.MaxPool, 3, 2, 1)),
		"pool max apart":       wrap(pool(model.MaxPool, 2, 3, 0)),
		"pool avg":             wrap(pool(model.AvgPool, 2, 2, 0)),
		"pool avg overlapping": wrap(pool(model.AvgPool, 3, 1, 1)),
		"pool global":          wrap(pool(model.GlobalPool, 0, 0, 0)),
		"pool first":           testArch(image, pool(model.AvgPool, 2, 1, 1), pool(model.MaxPool, 2, 2, 0), flat(), dense(3)),
		"norm batch":           wrap(normal(model.BatchNorm, 0)),
		"norm group":           wrap(normal(model.GroupNorm, 2)),
		"norm instance":        wrap(normal(model.InstanceNorm, 0)),
		"norm layer":           wrap(normal(model.LayerNorm, 0)),
		"norm first":           testArch(image, normal(model.LayerNorm, 0), normal(model.BatchNorm, 0), conv(2, 2, 1, 0), flat(), dense(3)),
		"norms of vectors": testArch([]int{6}, dense(8), normal(model.BatchNorm, 0), act(model.Tanh), dense(6), normal(model.GroupNorm, 3), act(model.GELU),
			dense(5), normal(model.LayerNorm, 0), dense(3)),
		"identity shortcut": wrap(block(list(act(model.SiLU), conv(4, 3, 1, 1), act(model.Tanh), conv(4, 3, 1, 1)))),
		"conv shortcut":     wrap(block(list(act(model.SiLU), conv(3, 3, 1, 1), act(model.Tanh), conv(5, 3, 2, 1)), conv(5, 1, 2, 0))),
		"block first":       testArch(image, block(list(conv(2, 3, 1, 1), act(model.SiLU))), block(list(act(model.Tanh)), act(model.SiLU)), flat(), dense(3)),
		"nested blocks": wrap(block(list(block(list(conv(4, 3, 1, 1), act(model.SiLU))), normal(model.GroupNorm, 2), act(model.SiLU)),
			block(list(conv(4, 1, 1, 0)), act(model.Tanh)))),
		"block of a vector": testArch([]int{5}, dense(6), block(list(act(model.SiLU), dense(4), act(model.SiLU), dense(6))), dense(3)),
		"blocks in a row":   wrap(block(list(act(model.SiLU), conv(4, 1, 1, 0))), block(list(act(model.SiLU), conv(4, 1, 1, 0))), block(list(normal(model.BatchNorm, 0), act(model.ELU)))),
	}
	for _, n := range []model.NormKind{model.NoNorm, model.BatchNorm} {
		a, err := model.WideResNet([]int{1, 5, 5}, 4, 10, 1, model.Style{Act: model.LeakyReLU, Norm: n, Groups: 2})
		if err != nil {
			panic(err)
		}
		cases["wide_resnet "+string(n)] = a
	}
	return cases
}

func TestParameterGradientsAgainstDifferences(t *testing.T) {
	for name, a := range gradientCases() {
		for _, shards := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", name, shards), func(t *testing.T) { checkParameterGradients(t, a, 4, shards, 2) })
		}
	}
}

func checkParameterGradients(t *testing.T, a model.Arch, rows, shards, group int) {
	p := testParams(t, a, 7)
	b := testBatch(a, rows, 8)
	e, err := New(a, p, rows, shards, group)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	logits, err := e.Gradients(b)
	if err != nil {
		t.Fatal(err)
	}
	ref := newReference(a, p, group)
	closeEnough(t, "logits", widen(logits), slices.Concat(ref.logits(split(b.X, rows))...))
	step := 1
	if ref.size() > 2000 { // a sample of the parameters of wide networks
		step = ref.size() / 50
	}
	at := 0
	for _, g := range e.Grads() {
		values := ref.params[g.Name]
		want := make([]float64, len(values))
		got := widen(g.Data)
		for i := range values {
			if at++; at%step != 0 {
				want[i] = got[i]
				continue
			}
			want[i] = derivative(&values[i], func() float64 { return ref.loss(b) })
		}
		closeEnough(t, g.Name, got, want)
	}
}

func TestInputGradientAgainstDifferences(t *testing.T) {
	for name, a := range gradientCases() {
		t.Run(name, func(t *testing.T) {
			p := testParams(t, a, 3)
			checkInputGradient(t, a, p, testBatch(a, 2, 4).X, 2)
		})
	}
}

func checkInputGradient(t *testing.T, a model.Arch, p model.Params, x []float32, n int) {
	t.Helper()
	logits, grad, err := InputGradient(a, p, x, n)
	if err != nil {
		t.Fatal(err)
	}
	forward, err := Forward(a, p, x, n)
	if err != nil {
		t.Fatal(err)
	}
	ref := newReference(a, p, 0)
	z := slices.Concat(ref.logits(split(x, n))...)
	closeEnough(t, "logits", widen(logits), z)
	closeEnough(t, "forward", widen(forward), z)
	size := model.Size(a.Input)
	for r, row := range split(x, n) {
		want := make([]float64, size)
		for i := range row {
			want[i] = derivative(&row[i], func() float64 { return referenceLSE(ref.logits([][]float64{row})[0]) })
		}
		closeEnough(t, fmt.Sprintf("score of row %d", r), widen(grad[r*size:(r+1)*size]), want)
	}
}

// Logits of +-50 and beyond: a log-sum-exp that takes no care of the largest would overflow.
func TestLargeLogits(t *testing.T) {
	a := testArch([]int{4}, dense(3))
	p := testParams(t, a, 1)
	for _, shift := range []float32{50, -50, 500, -500} {
		for i := range p[1].Data {
			p[1].Data[i] = shift + float32(i)
		}
		checkInputGradient(t, a, p, []float32{1, -1, .5, 2, 0, 0, 0, 0}, 2)
		p[1].Data[2] = -shift
		checkInputGradient(t, a, p, []float32{1, -1, .5, 2, 0, 0, 0, 0}, 2)
	}
}

// The gradient of logsumexp is the softmax: with equal logits exactly 1/K.
func TestScoreIsSoftmax(t *testing.T) {
	z := []float32{3, 3, 3, 3, -80, 20, -80, -80}
	dz := make([]float32, 8)
	lossGrad(z, []float32{1, 1}, []float32{0, 0}, make([]float32, 8), 4, 1, dz)
	for i, want := range []float32{.25, .25, .25, .25, 0, 1, 0, 0} {
		if math.Abs(float64(dz[i]-want)) > 1e-7 {
			t.Errorf("dz[%d] = %v, want %v", i, dz[i], want)
		}
	}
}

func TestActivationAccuracy(t *testing.T) {
	for _, f := range model.Activations {
		for i := -4000; i <= 4000; i++ {
			x := float32(i) / 32
			var y, dx [1]float32
			activate(f, []float32{x}, y[:])
			activateGrad(f, []float32{x}, []float32{1}, dx[:])
			want := referenceAct(f, float64(x))
			if d := math.Abs(float64(y[0]) - want); !(d <= 5e-7*math.Abs(want)+1e-35) {
				t.Fatalf("%s(%v) = %v, want %v", f, x, y[0], want)
			}
			if x == 0 {
				continue
			}
			v := float64(x)
			slope := derivative(&v, func() float64 { return referenceAct(f, v) })
			if d := math.Abs(float64(dx[0]) - slope); !(d <= 1e-6) {
				t.Fatalf("%s'(%v) = %v, want %v", f, x, dx[0], slope)
			}
		}
	}
}

func TestSigmoids(t *testing.T) {
	one := func(x float32) float32 {
		var s [1]float32
		sigmoids([]float32{x}, s[:])
		return s[0]
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct{ x, want float32 }{{0, .5}, {inf, 1}, {-inf, 0}, {1000, 1}, {-1000, 0}, {87, 1}, {-87, 0}} {
		if got := one(c.x); got != c.want {
			t.Errorf("sigmoid(%v) = %v, want %v", c.x, got, c.want)
		}
	}
	if got := one(float32(math.NaN())); got == got {
		t.Errorf("sigmoid(NaN) = %v", got)
	}
	for x := float32(-86.99); x < 87; x += .0137 {
		want := 1 / (1 + math.Exp(-float64(x)))
		if got := float64(one(x)); math.Abs(got/want-1) > 3e-7 {
			t.Fatalf("sigmoid(%v) = %v, want %v", x, got, want)
		}
	}
}
