package runtime_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// open gives a runtime on the CPU with two threads. At the end of the test nothing native may be left.
func open(t testing.TB) *ort.Runtime {
	t.Helper()
	if _, err := ort.Find(""); err != nil {
		t.Skipf("no library of ONNX Runtime, so nothing is run: %v", err)
	}
	r, err := ort.Open(ort.Config{Provider: "cpu", Threads: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		if n := ort.Live(); n != 0 {
			t.Errorf("%d native objects are left open", n)
		}
	})
	return r
}

func load(t testing.TB, r *ort.Runtime, model []byte) *ort.Session {
	t.Helper()
	s, err := r.Session(model, ort.SessionOptions{Name: "test.onnx"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func tensor(t testing.TB, shape []int64, data ...float32) *ort.Tensor {
	t.Helper()
	if len(data) == 0 {
		data = nil
	}
	x, err := ort.Float32(shape, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func TestSessionDescribesItsModel(t *testing.T) {
	s := load(t, open(t), twoOutputs())
	wantIn := []ort.Value{{Name: "a", Shape: []int64{-1, 2}, Type: "float32"}, {Name: "b", Shape: []int64{-1, 2}, Type: "float32"}}
	if diff := cmp.Diff(wantIn, s.Inputs()); diff != "" {
		t.Error(diff)
	}
	wantOut := []ort.Value{{Name: "sum", Shape: []int64{-1, 2}, Type: "float32"}, {Name: "class", Shape: []int64{-1}, Type: "int64"},
		{Name: "product", Shape: []int64{-1, 2}, Type: "float32"}}
	if diff := cmp.Diff(wantOut, s.Outputs()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"classes": `["left","right"]`, "fingerprint": "abc"}, s.Metadata()); diff != "" {
		t.Error(diff)
	}
}

// The profile is there when the session is closed, and names the provider of each operator that ran.
func TestSessionWritesAProfile(t *testing.T) {
	r := open(t)
	prefix := filepath.Join(t.TempDir(), "profile")
	s, err := r.Session(twoOutputs(), ort.SessionOptions{Profile: prefix})
	if err != nil {
		t.Fatal(err)
	}
	out := []*ort.Tensor{tensor(t, []int64{1, 2}), tensor(t, []int64{1, 2})}
	call, err := s.Bind(nil, []string{"sum", "product"})
	if err == nil {
		err = call.Run(t.Context(), []*ort.Tensor{tensor(t, []int64{1, 2}, 1, 2), tensor(t, []int64{1, 2}, 3, 4)}, out)
	}
	s.Close()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(prefix + "*.json")
	if err != nil || len(files) != 1 {
		t.Fatalf("profiles %v, error %v; want one", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"op_name" : "Add"`, `"op_name" : "Mul"`, `"provider" : "CPUExecutionProvider"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %s in the profile", want)
		}
	}
}

func TestCallRunsChosenNamesInTheirOrder(t *testing.T) {
	s := load(t, open(t), twoOutputs())
	call, err := s.Bind([]string{"b", "a"}, []string{"product", "sum"})
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int64{1, 3, 0, 2} {
		a, b := tensor(t, []int64{rows, 2}), tensor(t, []int64{rows, 2})
		var sum, product []float32
		for i := range a.Data() {
			a.Data()[i], b.Data()[i] = float32(i+1), float32(10*i)
			sum, product = append(sum, float32(11*i+1)), append(product, float32((i+1)*10*i))
		}
		kept := tensor(t, []int64{rows, 2})
		out := []*ort.Tensor{nil, kept}
		if err := call.Run(context.Background(), []*ort.Tensor{b, a}, out); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(out[0].Data(), product) || !slices.Equal(out[0].Shape(), []int64{rows, 2}) {
			t.Errorf("%d rows: product %v %v, want %v", rows, out[0].Shape(), out[0].Data(), product)
		}
		if !slices.Equal(kept.Data(), sum) {
			t.Errorf("%d rows: sum %v, want %v", rows, kept.Data(), sum)
		}
		out[0].Close()
	}
}

func TestBindRefuses(t *testing.T) {
	r := open(t)
	s := load(t, r, twoOutputs())
	bytesIn := load(t, r, unary("Identity", testValue{name: "x", typ: typeUint8, shape: []int64{-1}}, testValue{name: "y", typ: typeUint8, shape: []int64{-1}}))
	noInput := load(t, r, testModel{outputs: []testValue{{name: "y", typ: typeFloat, shape: []int64{2}}},
		nodes: []testNode{{op: "RandomNormal", out: []string{"y"}, attrs: [][]byte{attrShape("shape", 2)}}}}.encode())
	both, product := []string{"a", "b"}, []string{"product"}
	for _, c := range []struct {
		s       *ort.Session
		in, out []string
		want    string
	}{
		{s, []string{"a", "bb"}, product, `test.onnx: the model has no input "bb"; it has a, b; did you mean "b"?`},
		{s, []string{"a"}, product, "the model needs input b float32[?,2], and only a is given"},
		{s, []string{"a", "b", "a"}, product, `input "a" is chosen twice`},
		{s, both, []string{"produkt"}, `the model has no output "produkt"; it has sum, class, product; did you mean "product"?`},
		{s, both, []string{"class"}, "output class int64[?] is not a float32 tensor"},
		{s, both, nil, "output class int64[?] is not a float32 tensor"},
		{s, both, []string{}, "no output of the model is wanted"},
		{bytesIn, nil, nil, "input x uint8[?] is not a float32 tensor"},
		{noInput, nil, nil, "the model has no inputs"},
	} {
		_, err := c.s.Bind(c.in, c.out)
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.Data {
			t.Errorf("Bind(%v, %v) = %v, want a data error with %q", c.in, c.out, err, c.want)
		}
	}
	if err := noInput.Run(context.Background(), nil, []*ort.Tensor{nil}); err == nil {
		t.Error("a model without inputs ran")
	}
}

func attrShape(name string, dims ...uint64) []byte {
	a := stringField(nil, 1, name)
	for _, d := range dims {
		a = intField(a, 8, d)
	}
	return intField(a, 20, 7)
}

func TestRunRefusesTensorsThatDoNotFit(t *testing.T) {
	s := load(t, open(t), unary("Neg", testValue{name: "x", typ: typeFloat, shape: []int64{-1, 2}}, testValue{name: "y", typ: typeFloat, shape: []int64{-1, 2}}))
	good := tensor(t, []int64{1, 2}, 1, 2)
	closed := tensor(t, []int64{1, 2})
	closed.Close()
	type list = []*ort.Tensor
	for _, c := range []struct {
		in, out list
		want    string
	}{
		{list{}, list{nil}, "0 input and 1 output tensors; wanted 1 and 1"},
		{list{good}, list{}, "1 input and 0 output tensors"},
		{list{nil}, list{nil}, "no tensor for input x float32[?,2]"},
		{list{closed}, list{nil}, "the tensor for input x float32[?,2] is closed"},
		{list{good}, list{good}, "given twice"},
		{list{tensor(t, []int64{1, 3})}, list{nil}, "input x float32[?,2] is given a tensor of shape [1 3]"},
		{list{tensor(t, []int64{2})}, list{nil}, "input x float32[?,2] is given a tensor of shape [2]"},
		{list{tensor(t, nil)}, list{nil}, "input x float32[?,2] is given a tensor of shape []"},
		{list{good}, list{tensor(t, []int64{1, 3})}, "output y float32[?,2] is given a tensor of shape [1 3]"},
		{list{good}, list{tensor(t, []int64{5, 2})}, "test.onnx: the run failed on provider cpu: "},
	} {
		err := s.Run(context.Background(), c.in, c.out)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	out := list{nil}
	if err := s.Run(context.Background(), list{good}, out); err != nil || !slices.Equal(out[0].Data(), []float32{-1, -2}) {
		t.Errorf("after the refusals: %v %v", err, out)
	}
	out[0].Close()
	s.Close()
	if err := s.Run(context.Background(), list{good}, list{nil}); err == nil || !strings.Contains(err.Error(), "the session is closed") {
		t.Errorf("closed session: %v", err)
	}
}

func TestScalarsAndUnstatedShapes(t *testing.T) {
	r := open(t)
	ctx := context.Background()
	// y = x * step with a scalar step, and a scalar output.
	mean := testModel{
		inputs:  []testValue{{name: "x", typ: typeFloat, shape: []int64{-1}}, {name: "step", typ: typeFloat}},
		outputs: []testValue{{name: "y", typ: typeFloat, shape: []int64{-1}}, {name: "mean", typ: typeFloat}},
		nodes: []testNode{{op: "Mul", in: []string{"x", "step"}, out: []string{"y"}},
			{op: "ReduceMean", in: []string{"y"}, out: []string{"mean"}, attrs: [][]byte{attrInt("keepdims", 0)}}},
	}.encode()
	s := load(t, r, mean)
	x, step, given := tensor(t, []int64{2}, 1, 5), tensor(t, nil, 3), tensor(t, nil)
	for _, factor := range []float32{3, -1} { // a scalar is read anew in each run
		step.Data()[0] = factor
		for _, slot := range []*ort.Tensor{nil, given} {
			out := []*ort.Tensor{nil, slot}
			if err := s.Run(ctx, []*ort.Tensor{x, step}, out); err != nil {
				t.Fatal(err)
			}
			if got := out[1].Data()[0]; got != 3*factor || len(out[1].Shape()) != 0 {
				t.Errorf("mean of [1 5] times %v is %v %v", factor, out[1].Shape(), got)
			}
			out[0].Close()
			if slot == nil {
				out[1].Close()
			}
		}
	}
	only, err := s.Bind(nil, []string{"y"})
	if err != nil {
		t.Fatal(err)
	}
	out := []*ort.Tensor{nil}
	if err := only.Run(ctx, []*ort.Tensor{x, step}, out); err != nil || !slices.Equal(out[0].Data(), []float32{-1, -5}) {
		t.Errorf("y alone: %v %v", out, err)
	}
	out[0].Close()

	// A reshape whose target is an input gives an output of unknown rank.
	loose := testModel{inputs: []testValue{{name: "x", typ: typeFloat, loose: true}}, outputs: []testValue{{name: "y", typ: typeFloat, loose: true}},
		nodes: []testNode{{op: "Neg", in: []string{"x"}, out: []string{"y"}}}}.encode()
	s = load(t, r, loose)
	for range 2 {
		out := []*ort.Tensor{nil}
		if err := s.Run(ctx, []*ort.Tensor{tensor(t, []int64{1, 3}, 1, 2, 3)}, out); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(out[0].Shape(), []int64{1, 3}) || !slices.Equal(out[0].Data(), []float32{-1, -2, -3}) {
			t.Errorf("got %v %v", out[0].Shape(), out[0].Data())
		}
		out[0].Close()
	}
}

func TestFloat32ChecksShapeAndLength(t *testing.T) {
	if _, err := ort.Float32([]int64{1}, nil); err == nil || !strings.Contains(err.Error(), "open a runtime") {
		t.Errorf("without a runtime: %v", err)
	}
	open(t)
	for _, c := range []struct {
		shape []int64
		data  []float32
		want  string
	}{
		{[]int64{2, 2}, make([]float32, 5), "5 values for a tensor of shape [2 2], wanted 4"},
		{[]int64{2, 2}, make([]float32, 3), "3 values"},
		{[]int64{-1, 2}, nil, "cannot have the shape [-1 2]"},
		{[]int64{1 << 32, 1 << 32}, nil, "cannot have the shape"},
		{nil, make([]float32, 2), "2 values for a tensor of shape [], wanted 1"},
	} {
		if _, err := ort.Float32(c.shape, c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Float32(%v, %d values) = %v, want %q", c.shape, len(c.data), err, c.want)
		}
	}
	x := tensor(t, []int64{0, 7})
	if len(x.Data()) != 0 {
		t.Error("a tensor without rows has values")
	}
	x.Close()
	x.Close()
	(*ort.Tensor)(nil).Close()
}

func TestRefusesModelsInOneLine(t *testing.T) {
	r := open(t)
	good := twoOutputs()
	unknown := unary("NoSuchOperator", testValue{name: "x", typ: typeFloat, shape: []int64{1}}, testValue{name: "y", typ: typeFloat, shape: []int64{1}})
	newer := testModel{ir: 99, inputs: []testValue{{name: "x", typ: typeFloat, shape: []int64{1}}}, outputs: []testValue{{name: "y", typ: typeFloat, shape: []int64{1}}},
		nodes: []testNode{{op: "Neg", in: []string{"x"}, out: []string{"y"}}}}.encode()
	for _, c := range []struct {
		name  string
		model []byte
		want  string
	}{
		{"empty", nil, "an empty file, wanted an ONNX model"},
		{"text", []byte("this is not a model"), "ONNX Runtime cannot load it: "},
		{"cut", good[:len(good)/2], "ONNX Runtime cannot load it: "},
		{"operator", unknown, "NoSuchOperator"},
		{"version", newer, "IR version"},
	} {
		_, err := r.Session(c.model, ort.SessionOptions{Name: "bad.onnx"})
		if err == nil || !strings.HasPrefix(err.Error(), "bad.onnx: ") || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") || fault.KindOf(err) != fault.Data {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestConcurrentRuns(t *testing.T) {
	s := load(t, open(t), twoOutputs())
	call, err := s.Bind([]string{"a", "b"}, []string{"product"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	shared := tensor(t, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 100 {
				mine, err := ort.Float32([]int64{3, 2}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for k := range mine.Data() {
					mine.Data()[k] = float32(g*100 + i)
				}
				out := []*ort.Tensor{nil}
				if err := call.Run(ctx, []*ort.Tensor{shared, mine}, out); err != nil {
					t.Error(err)
					return
				}
				for k, got := range out[0].Data() {
					if want := float32((k + 1) * (g*100 + i)); got != want {
						t.Errorf("got %v, want %v", got, want)
					}
				}
				out[0].Close()
				mine.Close()
			}
		})
	}
	group.Wait()
}

func TestRunStopsWithItsContext(t *testing.T) {
	s := load(t, open(t), chain(500))
	const n = 300
	x := tensor(t, []int64{n, n})
	for i := range n {
		x.Data()[i*n+i] = 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := s.Run(ctx, []*ort.Tensor{x}, []*ort.Tensor{nil})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("after %v: %v", time.Since(began), err)
	}
	stopped := time.Since(began)
	if err := s.Run(ctx, []*ort.Tensor{x}, []*ort.Tensor{nil}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context that has ended: %v", err)
	}
	again, cancelAgain := context.WithCancel(context.Background())
	defer cancelAgain()
	began = time.Now()
	out := []*ort.Tensor{nil}
	if err := s.Run(again, []*ort.Tensor{x}, out); err != nil {
		t.Fatalf("the run options were not reset: %v", err)
	}
	defer out[0].Close()
	if whole := time.Since(began); stopped > whole/2+100*time.Millisecond {
		t.Errorf("stopped only after %v of %v", stopped, whole)
	}
	if !slices.Equal(out[0].Data(), x.Data()) {
		t.Error("a power of the unit matrix is another matrix")
	}
}

func TestClosingInAnyOrder(t *testing.T) {
	open(t) // skips without a library
	r, err := ort.Open(ort.Config{Provider: "cpu"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Session(twoOutputs(), ort.SessionOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	x, err := ort.Float32([]int64{1, 2}, []float32{2, 3})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	r.Close()
	if _, err := r.Session(twoOutputs(), ort.SessionOptions{}); err == nil || !strings.Contains(err.Error(), "the runtime is closed") {
		t.Errorf("a closed runtime: %v", err)
	}
	call, err := s.Bind(nil, []string{"sum"})
	if err != nil {
		t.Fatal(err)
	}
	out := []*ort.Tensor{nil}
	if err := call.Run(context.Background(), []*ort.Tensor{x, x}, out); err != nil || !slices.Equal(out[0].Data(), []float32{4, 6}) {
		t.Errorf("after the runtime is closed: %v %v", out[0], err)
	}
	s.Close()
	s.Close()
	x.Close()
	out[0].Close()
}

// A tensor that nobody closes is given back by the garbage collector, and does not end the process while it is pinned.
func TestForgottenTensorIsCollected(t *testing.T) {
	open(t)
	before := ort.Live()
	func() {
		if _, err := ort.Float32([]int64{1000}, nil); err != nil {
			t.Fatal(err)
		}
	}()
	for range 100 {
		goruntime.GC()
		if ort.Live() == before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d native objects are open, wanted %d", ort.Live(), before)
}
