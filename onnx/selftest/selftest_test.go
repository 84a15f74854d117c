package selftest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/gradient"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/onnx/selftest"
)

// wrong changes the graph of a gradient: g [N, 4] is the right one, the result is what is given out as score.
type wrong func(t *testing.T, g *ir.Graph, right string) string

func scale(by string) wrong {
	return func(t *testing.T, g *ir.Graph, right string) string {
		return g.Add(by, []string{right, scalar(t, g, 3)})
	}
}

func scalar(t *testing.T, g *ir.Graph, v float32) string {
	t.Helper()
	name, err := g.Constant(ir.Float32Tensor("c", nil, []float32{v}))
	must(t, err)
	return name
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each way in which people's gradient graphs are wrong must be found, and called by its name.
func TestWrongGradientsAreNamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrong wrong
		want  string // empty: the graph passes
	}{
		{"right", func(_ *testing.T, _ *ir.Graph, right string) string { return right }, ""},
		{"frozen constant", func(t *testing.T, g *ir.Graph, right string) string {
			row, err := g.Constant(ir.Float32Tensor("row", []int64{1, 4}, []float32{0.1, -0.2, 0.3, 0.4}))
			must(t, err)
			return g.Add("Expand", []string{row, g.Add("Shape", []string{right})})
		}, "frozen constant"},
		{"mean of the batch", func(t *testing.T, g *ir.Graph, right string) string {
			n := g.Add("Cast", []string{g.Add("Gather", []string{g.Add("Shape", []string{right}), zero(t, g)})}, ir.Int("to", int64(ir.Float32)))
			return g.Add("Div", []string{right, n})
		}, "mean over the batch"},
		{"rows mixed", func(t *testing.T, g *ir.Graph, right string) string {
			return g.Add("Sub", []string{right, g.Add("ReduceMean", []string{right}, ir.Ints("axes", 0), ir.Int("keepdims", 1))})
		}, "depends on its neighbours"},
		{"three times too large", scale("Mul"), "about 3 times what it should be"},
		{"the energy's sign", func(t *testing.T, g *ir.Graph, right string) string { return g.Add("Neg", []string{right}) }, "about -1 times"},
		{"another function's", func(t *testing.T, g *ir.Graph, right string) string { return g.Add("Tanh", []string{right}) }, "disagrees with central differences"},
		{"not a number", func(t *testing.T, g *ir.Graph, right string) string {
			return g.Add("Log", []string{g.Add("Sub", []string{right, scalar(t, g, 100)})})
		}, "is NaN"},
		{"summed over the batch", func(t *testing.T, g *ir.Graph, right string) string {
			return g.Add("ReduceSum", []string{right, zero(t, g)}, ir.Int("keepdims", 1))
		}, "not the gradient of each sample"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := graph(t, c.wrong).Run(context.Background(), probe(), 1)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func zero(t *testing.T, g *ir.Graph) string {
	t.Helper()
	name, err := g.Constant(ir.Int64Tensor("zero", 0))
	must(t, err)
	return name
}

func probe() []float32 {
	x := make([]float32, 6*4)
	for i := range x {
		x[i] = float32((i*7)%13)/6 - 1
	}
	return x
}

// graph is logits = tanh(x A) B with the gradient of their log-sum-exp, changed by wrong.
func graph(t *testing.T, change wrong) selftest.Graph {
	t.Helper()
	if _, err := ort.Find(""); err != nil {
		t.Skipf("ONNX Runtime is not installed: %v", err)
	}
	m := ir.NewModel("net", lower.IRVersion, lower.Opset)
	g, err := ir.NewGraph(m)
	must(t, err)
	must(t, g.Input("x", ir.Float32, ir.Free("N"), ir.Fixed(4)))
	weights := func(name string, n int) string {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32((i*5)%11)/5 - 1
		}
		must(t, g.Initializer(ir.Float32Tensor(name, []int64{4, int64(n / 4)}, w)))
		return name
	}
	h := g.Add("Tanh", []string{g.Add("MatMul", []string{"x", weights("a", 16)})})
	g.AddNamed("logits", "MatMul", []string{h, weights("b", 12)}, []string{"logits"})
	of, err := lower.Energy.Add(g, "logits", 3)
	must(t, err)
	grads, err := gradient.Gradient(m, of, []string{"x"})
	must(t, err)
	g, err = ir.NewGraph(m)
	must(t, err)
	score := change(t, g, grads[0])
	g.Output("logits", ir.Float32, ir.Free("N"), ir.Fixed(3))
	g.Output(score, ir.Float32, ir.Dim{}, ir.Fixed(4))
	rt, err := ort.Open(ort.Config{Provider: "cpu", Threads: 1}, nil)
	must(t, err)
	t.Cleanup(func() { rt.Close() })
	data, err := ir.Marshal(m)
	must(t, err)
	s, err := rt.Session(data, ort.SessionOptions{})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return selftest.Graph{Session: s, Name: "score.onnx", Input: "x", Shape: []int{4}, Logits: "logits", Score: score, Readout: lower.Energy.Of}
}

// Preprocessing between the input and the value that the gradient belongs to is part of the comparison.
func TestGradientInModelSpace(t *testing.T) {
	g := graph(t, scale("Div"))
	g.From, g.Scale = []int{0, 1, 2, 3}, []float64{3, 3, 3, 3}
	report, err := g.Run(context.Background(), probe(), 1)
	if err != nil || report.Coordinates != 24 || report.Median > 1e-3 {
		t.Errorf("%+v, %v", report, err)
	}
}
