package gorgonia

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/model"
)

// batchNormed is a convnet with two batch normalisations.
func batchNormed() model.Arch {
	return testArch([]int{1, 6, 6}, conv(4, 3, 1, 1), normal(model.BatchNorm, 0), act(model.SiLU), conv(5, 3, 2, 1), act(model.SiLU), flat(),
		dense(6), normal(model.BatchNorm, 0), act(model.SiLU), dense(3))
}

// checkRunning wants running statistics to be those that PyTorch's rule gives for groups of rows, one after the other.
func checkRunning(t *testing.T, a model.Arch, before, after model.Params, x []float32, n, group int) {
	t.Helper()
	ref := newReference(a, before, group)
	rows, shape := split(x, n), a.Input
	for _, l := range a.Layers {
		if l.Kind == model.Norm {
			area := model.Size(shape) / shape[0]
			mean, variance := slices.Clone(ref.params[l.Name+".running_mean"]), slices.Clone(ref.params[l.Name+".running_var"])
			for g := range n / group {
				for c := range mean {
					var set []float64
					for _, row := range rows[g*group : (g+1)*group] {
						set = append(set, row[c*area:(c+1)*area]...)
					}
					m := referenceMoments(set)
					mean[c] = .9*mean[c] + .1*m[0]
					variance[c] = .9*variance[c] + .1*m[1]*float64(len(set))/float64(len(set)-1)
				}
			}
			for name, want := range map[string][]float64{".running_mean": mean, ".running_var": variance} {
				got, _ := after.Lookup(l.Name + name)
				closeEnough(t, l.Name+name, widen(got.Data), want)
			}
		}
		rows, shape = ref.layer(l, l.Name, rows, shape)
	}
}

func TestRunningStatistics(t *testing.T) {
	a := batchNormed()
	for _, c := range []struct{ rows, shards, group, batch int }{{8, 1, 4, 8}, {9, 2, 3, 9}, {12, 3, 4, 8}, {12, 2, 4, 4}, {6, 9, 3, 6}} {
		p := testParams(t, a, 3)
		before := p.Clone()
		b := testBatch(a, c.batch, 4)
		e, err := New(a, p, c.rows, c.shards, c.group)
		if err != nil {
			t.Fatal(err)
		}
		logits := gradients(t, e, b)
		want := slices.Concat(newReference(a, before, c.group).logits(split(b.X, c.batch))...)
		closeEnough(t, "logits", widen(logits), want)
		checkRunning(t, a, before, p, b.X, c.batch, c.group)
		for _, g := range e.Grads() {
			if strings.Contains(g.Name, "running") {
				t.Errorf("%s has a gradient", g.Name)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A group's logits depend on its own rows alone, and those of Forward on nothing but the row.
func TestGroupsAreIndependent(t *testing.T) {
	a := batchNormed()
	p := testParams(t, a, 3)
	one, two := testBatch(a, 8, 4), testBatch(a, 8, 4)
	for i := 4 * a.Size(); i < len(two.X); i++ {
		two.X[i] *= 3
	}
	var z [2][]float32
	for i, b := range []Batch{one, two} {
		e, err := New(a, p.Clone(), 8, 2, 4)
		if err != nil {
			t.Fatal(err)
		}
		z[i] = gradients(t, e, b)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	half := 4 * a.Classes
	if !slices.Equal(z[0][:half], z[1][:half]) || slices.Equal(z[0][half:], z[1][half:]) {
		t.Error("logits of one group depend on another, or not on its own rows")
	}
	all, err := Forward(a, p, one.X, 8)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := Forward(a, p, one.X[:a.Size()], 1)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(all[:a.Classes], alone) {
		t.Error("outside training a row depends on its batch")
	}
}

func TestGroupErrors(t *testing.T) {
	a := batchNormed()
	p := testParams(t, a, 3)
	vector := testArch([]int{4}, dense(5), normal(model.BatchNorm, 0), dense(3))
	for want, f := range map[string]func() error{
		"groups of 3 rows, want a divisor of the 8 rows": func() error { _, err := New(a, p, 8, 1, 3); return err },
		"groups of 0 rows":                        func() error { _, err := New(a, p, 8, 1, 0); return err },
		"one row of one position has no variance": func() error { _, err := New(vector, testParams(t, vector, 1), 8, 1, 1); return err },
		"batch of 6 rows, want whole groups of 4": func() error {
			e, err := New(a, p, 8, 1, 4)
			if err != nil {
				return err
			}
			defer e.Close()
			_, err = e.Gradients(testBatch(a, 6, 1))
			return err
		},
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := New(convnet8(), testParams(t, convnet8(), 1), 7, 2, 3); err != nil {
		t.Errorf("a group without batch normalisation: %v", err)
	}
}

// Bits depend neither on cores nor on where memory lies, for all kinds of layers.
func TestLayersGiveEqualBits(t *testing.T) {
	for name, a := range layerCases() {
		if strings.HasPrefix(name, "wide_resnet") && !strings.HasSuffix(name, "batch") {
			continue
		}
		b := testBatch(a, 6, 2)
		var want []uint32
		for i, procs := range []int{2, 1, 4} {
			old := runtime.GOMAXPROCS(procs)
			p := misaligned(testParams(t, a, 1), i)
			e, err := New(a, p, 6, 2, 3)
			if err != nil {
				t.Fatal(err)
			}
			gradients(t, e, testBatch(a, 6, uint64(i))) // leaves other values in the buffers
			clearAll(e.Grads())
			for _, s := range p {
				if strings.Contains(s.Name, "running") {
					for j := range s.Data {
						s.Data[j] = .5
					}
				}
			}
			z := gradients(t, e, b)
			_, score, err := InputGradient(a, p, b.X, 6)
			if err != nil {
				t.Fatal(err)
			}
			got := bits(append(append(slices.Clone(e.Grads()), p...), model.Tensor{Data: z}, model.Tensor{Data: score}))
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			runtime.GOMAXPROCS(old)
			if want == nil {
				want = got
			} else if !slices.Equal(got, want) {
				t.Errorf("%s: other bits with GOMAXPROCS %d", name, procs)
			}
		}
	}
}

func clearAll(ps model.Params) {
	for _, p := range ps {
		clear(p.Data)
	}
}

// The largest value is found where values are equal or not numbers, and its gradient goes to one place.
func TestLargestOfEqualValues(t *testing.T) {
	g := &pooling{n: 1, h: 2, w: 2, c: 1, oh: 1, ow: 1, k: 2, s: 2, winners: make([]int32, 1)}
	nan := float32(math.NaN())
	for _, c := range []struct {
		x    []float32
		wins int
	}{{[]float32{1, 1, 1, 1}, 0}, {[]float32{0, 2, 2, 1}, 1}, {[]float32{0, nan, 5, 1}, 1}, {[]float32{-3, -2, -1, -4}, 2}} {
		y, dx := make([]float32, 1), make([]float32, 4)
		g.largest(c.x, y)
		g.largestGrad([]float32{7}, dx)
		want := make([]float32, 4)
		want[c.wins] = 7
		if !slices.Equal(dx, want) || y[0] != c.x[c.wins] && c.x[c.wins] == c.x[c.wins] {
			t.Errorf("%v: largest %v, gradient %v, want at %d", c.x, y, dx, c.wins)
		}
	}
}

// The wide residual network for small machines, at its own size, in both lowerings.
func TestWideResNetAtFullSize(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	a := wrn10x2(t)
	p := testParams(t, a, 1)
	e, err := New(a, p, 2, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	gradients(t, e, testBatch(a, 2, 1))
	for _, g := range e.Grads() {
		if size := norm(model.Params{g}); !(size > 0) || math.IsInf(size, 0) {
			t.Errorf("gradient %s has norm %g", g.Name, size)
		}
	}
	checkLowerings(t, a)
}
