package gorgonia

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	G "gorgonia.org/gorgonia"

	"github.com/jempipe/jempipe/model"
)

func newEngine(t testing.TB, a model.Arch, p model.Params, rows, shards int) *Engine {
	t.Helper()
	e, err := New(a, p, rows, shards, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func newUpdater(t testing.TB, s Solver, p model.Params, e *Engine) *Updater {
	t.Helper()
	u, err := NewUpdater(s, p, e.Grads())
	if err != nil {
		t.Fatal(err)
	}
	return u
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

// gradients leaves the gradient of one batch alone in the engine.
func gradients(t testing.TB, e *Engine, b Batch) []float32 {
	t.Helper()
	for _, g := range e.Grads() {
		clear(g.Data)
	}
	z, err := e.Gradients(b)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(z)
}

// bits are the values of all tensors as integers, so that NaN and signed zeros compare.
func bits(ps model.Params) (out []uint32) {
	for _, p := range ps {
		for _, v := range p.Data {
			out = append(out, math.Float32bits(v))
		}
	}
	return out
}

func fit(t testing.TB, a model.Arch, p model.Params, rows, shards, steps int, s Solver) {
	t.Helper()
	e := newEngine(t, a, p, rows, shards)
	u := newUpdater(t, s, p, e)
	for i := range steps {
		gradients(t, e, testBatch(a, rows, uint64(i)))
		if err := u.Step(1e-3); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStepUpdatesTheSharedSlices(t *testing.T) {
	for _, s := range []Solver{DefaultSolver(), {Name: "sgd"}, {Name: "sgd", Momentum: .9, WeightDecay: .1}} {
		a := convnet8()
		p := testParams(t, a, 1)
		before := p.Clone()
		pointers := make([]*float32, len(p))
		for i := range p {
			pointers[i] = &p[i].Data[0]
		}
		fit(t, a, p, 5, 2, 3, s)
		for i := range p {
			if pointers[i] != &p[i].Data[0] {
				t.Errorf("%s: another slice", p[i].Name)
			}
			if slices.Equal(p[i].Data, before[i].Data) {
				t.Errorf("%s %+v: the values did not change", p[i].Name, s)
			}
		}
		// What the caller writes into the slices is what the engine reads.
		e := newEngine(t, a, p, 5, 2)
		b := testBatch(a, 5, 9)
		z := gradients(t, e, b)
		for i := range p {
			copy(p[i].Data, before[i].Data)
		}
		changed := gradients(t, e, b)
		want, err := Forward(a, before, b.X, 5)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(z, changed) || !slices.Equal(changed, want) {
			t.Error("the engine did not see the values that the caller wrote")
		}
	}
}

func TestEqualInputsGiveEqualBits(t *testing.T) {
	a := convnet8()
	var want []uint32
	for i, procs := range []int{2, 1, 4, 2} {
		old := runtime.GOMAXPROCS(procs)
		p := misaligned(testParams(t, a, 1), i)
		fit(t, a, p, 33, 2, 50, DefaultSolver())
		runtime.GOMAXPROCS(old)
		if got := bits(p); want == nil {
			want = got
		} else if !slices.Equal(got, want) {
			t.Fatalf("other weights after 50 steps with GOMAXPROCS %d and parameters moved by %d floats", procs, i)
		}
	}
}

// misaligned copies parameters to addresses shifted by some floats.
func misaligned(p model.Params, shift int) model.Params {
	for i := range p {
		moved := make([]float32, len(p[i].Data)+shift)[shift:]
		copy(moved, p[i].Data)
		p[i].Data = moved
	}
	return p
}

func TestFreshGraphsGiveEqualGradients(t *testing.T) {
	a := testArch([]int{2, 9, 7}, conv(5, 3, 2, 1), act(model.SiLU), conv(6, 3, 1, 1), act(model.LeakyReLU), flat(), dense(17), act(model.Softplus), dense(4))
	b := testBatch(a, 11, 2)
	var want, wantScore []uint32
	for i := range 24 {
		p := misaligned(testParams(t, a, 1), i%4)
		e := newEngine(t, a, p, 11, 3)
		gradients(t, e, testBatch(a, 11, uint64(i))) // leaves other values in the buffers
		gradients(t, e, b)
		z, dx, err := InputGradient(a, p, b.X, 11)
		if err != nil {
			t.Fatal(err)
		}
		got, score := bits(e.Grads()), bits(model.Params{{Data: z}, {Data: dx}})
		if i == 0 {
			want, wantScore = got, score
		}
		if !slices.Equal(got, want) || !slices.Equal(score, wantScore) {
			t.Fatalf("graph %d gives other bits", i)
		}
	}
}

// Rows are independent: any number of shards gives the same logits, and gradients that differ in rounding only.
func TestShardsAgree(t *testing.T) {
	a := convnet8()
	p := testParams(t, a, 5)
	b := testBatch(a, 7, 6)
	var z []float32
	var grads model.Params
	for _, shards := range []int{1, 2, 3, 7, 20} {
		e := newEngine(t, a, p, 7, shards)
		got := gradients(t, e, b)
		if shards == 1 {
			z, grads = got, e.Grads().Clone()
			continue
		}
		if !slices.Equal(got, z) {
			t.Errorf("%d shards: other logits", shards)
		}
		for i, g := range e.Grads() {
			closeEnough(t, g.Name, widen(g.Data), widen(grads[i].Data))
		}
	}
}

func TestShortBatch(t *testing.T) {
	a := convnet8()
	p := testParams(t, a, 5)
	whole := newEngine(t, a, p, 8, 3)
	gradients(t, whole, testBatch(a, 8, 1))
	for n := 1; n <= 8; n++ {
		b := testBatch(a, n, 6)
		exact := newEngine(t, a, p, n, 1)
		if want, got := gradients(t, exact, b), gradients(t, whole, b); !slices.Equal(got, want) {
			t.Errorf("%d of 8 rows: other logits", n)
		}
		grads := exact.Grads()
		for i, g := range whole.Grads() {
			closeEnough(t, g.Name, widen(g.Data), widen(grads[i].Data))
		}
	}
}

// Gradients add up until the caller clears them, and nothing else is left of a batch.
func TestGradientsAddUp(t *testing.T) {
	a := convnet8()
	e := newEngine(t, a, testParams(t, a, 5), 4, 2)
	b := testBatch(a, 4, 6)
	gradients(t, e, b)
	want := bits(e.Grads())
	gradients(t, e, testBatch(a, 4, 7))
	gradients(t, e, b)
	if !slices.Equal(bits(e.Grads()), want) {
		t.Fatal("a second call gives other gradients")
	}
	one := norm(e.Grads())
	if _, err := e.Gradients(b); err != nil {
		t.Fatal(err)
	}
	if two := norm(e.Grads()); math.Abs(two/one-2) > 1e-6 {
		t.Errorf("norm %v after the batch, %v after the same batch again", one, two)
	}
}

func TestErrors(t *testing.T) {
	a := convnet8()
	p := testParams(t, a, 1)
	e := newEngine(t, a, p, 4, 2)
	good := testBatch(a, 4, 1)
	for name, b := range map[string]Batch{
		"no rows":      {},
		"too many":     testBatch(a, 5, 1),
		"x too short":  {X: good.X[1:], Alpha: good.Alpha, Beta: good.Beta, Gamma: good.Gamma},
		"beta missing": {X: good.X, Alpha: good.Alpha, Gamma: good.Gamma},
		"gamma long":   {X: good.X, Alpha: good.Alpha, Beta: good.Beta, Gamma: append(good.Gamma, 1)},
	} {
		if _, err := e.Gradients(b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	other := testParams(t, testArch([]int{4}, dense(3)), 1)
	broken := p.Clone()
	broken[1].Data[0] = float32(math.NaN())
	for name, f := range map[string]func() error{
		"rows":        func() error { _, err := New(a, p, 0, 1, 0); return err },
		"shards":      func() error { _, err := New(a, p, 4, 0, 0); return err },
		"other model": func() error { _, err := New(a, other, 4, 1, 0); return err },
		"NaN weight":  func() error { _, err := New(a, broken, 4, 1, 0); return err },
		"no parameters": func() error {
			_, err := New(testArch([]int{1}, act(model.ReLU)), nil, 4, 1, 0)
			return err
		},
		"bad arch": func() error {
			_, err := New(testArch([]int{1}, conv(1, 1, 1, 0)), nil, 4, 1, 0)
			return err
		},
		"forward rows":  func() error { _, err := Forward(a, p, nil, 0); return err },
		"forward x":     func() error { _, err := Forward(a, p, make([]float32, 5), 1); return err },
		"gradient x":    func() error { _, _, err := InputGradient(a, p, make([]float32, 65), 1); return err },
		"gradient arch": func() error { _, _, err := InputGradient(a, other, make([]float32, 64), 1); return err },
	} {
		if err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A panic inside an operator happens on a goroutine of gorgonia and must come back as an error all the same.
func TestPanicsBecomeErrors(t *testing.T) {
	l := &lowering{g: G.NewGraph(), n: 1}
	x := l.input("x", 1, 2, []float32{1, 2})
	broken := true
	l.apply(newKernel("fragile", 1, 2, []int{2}, func(in [][]float32, out []float32) {
		if broken {
			out[0] = in[0][len(in[0])]
		}
	}), x)
	if l.err != nil {
		t.Fatal(l.err)
	}
	net := &network{machine: G.NewTapeMachine(l.g)}
	defer net.machine.Close()
	if err := net.run(); err == nil || !strings.Contains(err.Error(), "fragile: runtime error: index out of range") {
		t.Errorf("error %v", err)
	}
	broken = false
	if err := net.run(); err != nil {
		t.Errorf("a good run after a broken one: %v", err)
	}
}

func TestValuesThatAreNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, spoil := range map[string]func(b *Batch){
		"NaN in x":          func(b *Batch) { b.X[3] = nan },
		"infinite x":        func(b *Batch) { b.X[3] = inf },
		"-infinite x":       func(b *Batch) { b.X[3] = -inf },
		"NaN weight":        func(b *Batch) { b.Alpha[0] = nan },
		"infinite weight":   func(b *Batch) { b.Gamma[0] = inf },
		"overflow of x":     func(b *Batch) { b.X[3] = math.MaxFloat32 },
		"overflow of gamma": func(b *Batch) { b.Gamma[0], b.Gamma[1] = math.MaxFloat32, math.MaxFloat32 },
	} {
		for _, f := range model.Activations {
			a := testArch([]int{4}, dense(6), act(f), dense(3))
			p := testParams(t, a, 1)
			for i := range p {
				for j := range p[i].Data {
					p[i].Data[j] *= 20
				}
			}
			e := newEngine(t, a, p, 2, 1)
			b := testBatch(a, 2, 1)
			spoil(&b)
			if _, err := e.Gradients(b); err != nil {
				t.Errorf("%s, %s: %v", name, f, err)
			}
			size := norm(e.Grads())
			if strings.HasPrefix(name, "NaN") && !math.IsNaN(size) || name == "infinite weight" && !math.IsNaN(size) && !math.IsInf(size, 0) {
				t.Errorf("%s, %s: norm %v", name, f, size)
			}
			gradients(t, e, testBatch(a, 1, 1)) // nothing of it stays, in the rows that are filled up either
			if size := norm(e.Grads()); math.IsNaN(size) || math.IsInf(size, 0) || size == 0 {
				t.Errorf("%s, %s: norm %v of the batch after it", name, f, size)
			}
		}
	}
}

func TestCloseLeavesNoGoroutines(t *testing.T) {
	a := convnet8()
	p := testParams(t, a, 1)
	before := runtime.NumGoroutine()
	for range 10 {
		e, err := New(a, p, 6, 3, 0)
		if err != nil {
			t.Fatal(err)
		}
		gradients(t, e, testBatch(a, 6, 1))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		if _, err := e.Gradients(testBatch(a, 6, 1)); err == nil {
			t.Error("gradients of a closed engine: no error")
		}
		if _, _, err := InputGradient(a, p, make([]float32, 64), 1); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// Engines and probes of different goroutines do not disturb each other.
func TestConcurrentEngines(t *testing.T) {
	a := testArch([]int{1, 6, 6}, conv(4, 3, 2, 1), act(model.SiLU), flat(), dense(3))
	var wg sync.WaitGroup
	out := make([][]uint32, 6)
	for i := range out {
		wg.Go(func() {
			p := testParams(t, a, 1)
			e, err := New(a, p, 5, 2, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer e.Close()
			u := newUpdater(t, DefaultSolver(), p, e)
			for s := range 5 {
				b := testBatch(a, 5, uint64(s))
				if _, err := e.Gradients(b); err != nil {
					t.Error(err)
				}
				if err := u.Step(1e-2); err != nil {
					t.Error(err)
				}
				if _, _, err := InputGradient(a, p, b.X, 5); err != nil {
					t.Error(err)
				}
			}
			out[i] = bits(p)
		})
	}
	wg.Wait()
	for i := range out {
		if !slices.Equal(out[i], out[0]) {
			t.Errorf("engine %d has other weights", i)
		}
	}
}

func TestAligned(t *testing.T) {
	for n := range 300 {
		_ = make([]byte, 1+n%7) // may share a block with a small slice
		s := aligned(n)
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(s))); at%16 != 0 || len(s) != n || cap(s) != n {
			t.Errorf("slice of %d at %x", n, at)
		}
	}
}

// A long run allocates little: buffers are made once, not in every step.
func TestMemoryStaysFlat(t *testing.T) {
	a := convnet8()
	e := newEngine(t, a, testParams(t, a, 1), 64, 2)
	b := testBatch(a, 64, 1)
	gradients(t, e, b)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		gradients(t, e, b)
	}
	runtime.ReadMemStats(&after)
	if perCall := (after.TotalAlloc - before.TotalAlloc) / 20; perCall > 200<<10 {
		t.Errorf("%d bytes allocated in one call of Gradients", perCall)
	}
}
