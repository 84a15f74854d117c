package gradient

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/internal/testdata"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func build(t testing.TB, fill func(g *ir.Graph)) *onnxpb.ModelProto {
	t.Helper()
	m := ir.NewModel("test", 8, 17)
	g, err := ir.NewGraph(m)
	must(t, err)
	fill(g)
	return m
}

// gradients runs the gradients of a model with one input x.
func gradients(t *testing.T, m *onnxpb.ModelProto, of string, wrt []string, x []float32) [][]float32 {
	t.Helper()
	grads, err := Gradient(m, of, wrt)
	must(t, err)
	g, err := ir.NewGraph(m)
	must(t, err)
	m.Graph.Output = nil
	for _, name := range grads {
		out := g.Add("Cast", []string{name}, ir.Int("to", int64(ir.Float32)))
		m.Graph.Output = append(m.Graph.Output, &onnxpb.ValueInfoProto{Name: out, Type: &onnxpb.TypeProto{
			Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: ir.Float32}}}})
	}
	must(t, ir.Check(m))
	s := session(t, runtimetest.Open(t), m)
	shape := []int64{}
	for _, d := range s.Inputs()[0].Shape {
		shape = append(shape, max(d, 1))
	}
	in, err := ort.Float32(shape, x)
	must(t, err)
	defer in.Close()
	out := make([]*ort.Tensor, len(grads))
	must(t, s.Run(context.Background(), []*ort.Tensor{in}, out))
	values := make([][]float32, len(grads))
	for i, v := range out {
		values[i] = slices.Clone(v.Data())
		v.Close()
	}
	return values
}

func equal(t *testing.T, got []float32, want ...float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= 1e-5*(1+math.Abs(float64(want[i])))) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// A value that is used several times gets the sum of what its uses contribute, in every number of uses.
func TestUsesAreSummed(t *testing.T) {
	for uses := 1; uses <= 4; uses++ {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
			var terms []string
			for range uses {
				terms = append(terms, g.Add("Exp", []string{"x"}))
			}
			g.AddNamed("y", "Sum", terms, []string{"y"})
		})
		f := float32(uses)
		equal(t, gradients(t, m, "y", []string{"x"}, []float32{0, 1})[0], f, f*math.E)
	}
}

func TestSameInputTwice(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
		g.AddNamed("y", "Mul", []string{"x", "x"}, []string{"y"})
	})
	equal(t, gradients(t, m, "y", []string{"x"}, []float32{3, -5})[0], 6, -10)
}

// An input that only gives a type is read, but its value does not matter.
func TestInputWithoutInfluence(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
		must(t, g.Initializer(ir.Float32Tensor("type", []int64{1}, []float32{5})))
		g.AddNamed("y", "CastLike", []string{"x", "type"}, []string{"y"})
	})
	got := gradients(t, m, "y", []string{"x", "type"}, []float32{3, -5})
	equal(t, got[0], 1, 1)
	equal(t, got[1], 0)
}

// Uniform and full contributions to one value: y = x + x^2 + 2.
func TestUniformAndFullContributions(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
		square := g.Add("Mul", []string{"x", "x"})
		g.AddNamed("y", "Add", []string{"x", square}, []string{"y"})
	})
	equal(t, gradients(t, m, "y", []string{"x"}, []float32{3, -5})[0], 7, -9)
}

// Gradients with respect to the readout itself, an intermediate value, an initializer and an input at once.
func TestAnyValue(t *testing.T) {
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Free("N"), ir.Fixed(2)))
		must(t, g.Initializer(ir.Float32Tensor("w", []int64{2}, []float32{10, 20})))
		g.AddNamed("h", "Mul", []string{"x", "w"}, []string{"h"})
		g.AddNamed("y", "Mul", []string{"h", "h"}, []string{"y"})
	})
	got := gradients(t, m, "y", []string{"y", "h", "w", "x"}, []float32{1, 2})
	equal(t, got[0], 1, 1)
	equal(t, got[1], 20, 80)
	equal(t, got[2], 20, 160)
	equal(t, got[3], 200, 1600)
}

// x sigmoid(x) is differentiated in one go, unless the gradient of the sigmoid is wanted too.
func TestSiLU(t *testing.T) {
	silu := func(order int) *onnxpb.ModelProto {
		return build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Fixed(3)))
			g.AddNamed("s", "Sigmoid", []string{"x"}, []string{"s"})
			in := []string{"x", "s"}
			if order == 1 {
				in = []string{"s", "x"}
			}
			g.AddNamed("m", "Mul", in, []string{"m"})
			g.AddNamed("y", "Exp", []string{"m"}, []string{"y"})
		})
	}
	x := []float32{-3, 0.5, 2}
	var want, wantS []float32
	for _, v := range x {
		v := float64(v)
		s := 1 / (1 + math.Exp(-v))
		y := math.Exp(v * s)
		want = append(want, float32(y*s*(1+v*(1-s))))
		wantS = append(wantS, float32(y*v))
	}
	for order := range 2 {
		m := silu(order)
		before := len(m.Graph.Node)
		equal(t, gradients(t, m, "y", []string{"x"}, x)[0], want...)
		if added := len(m.Graph.Node) - before; added > 8 { // the seed, exp, four for SiLU, the test's conversion
			t.Errorf("%d nodes are added", added)
		}
		got := gradients(t, silu(order), "y", []string{"x", "s"}, x)
		equal(t, got[0], want...)
		equal(t, got[1], wantS...)
	}
}

func TestErrors(t *testing.T) {
	relu := func(op string, attrs ...*onnxpb.AttributeProto) func(g *ir.Graph) {
		return func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Free("N"), ir.Fixed(4)))
			must(t, g.Input("k", ir.Int64, ir.Fixed(1)))
			h := g.Add("Relu", []string{"x"})
			g.AddNamed("the_node", op, []string{h}, []string{"h"}, attrs...)
			g.AddNamed("back", "Cast", []string{"h"}, []string{"float"}, ir.Int("to", int64(ir.Float32)))
			g.AddNamed("last", "Exp", []string{"float"}, []string{"y"})
		}
	}
	for _, c := range []struct {
		name    string
		fill    func(g *ir.Graph)
		of, wrt string
		want    []string
	}{
		{"unknown operator", relu("Twirl"), "y", "x", []string{`node "the_node" (Twirl)`, "not supported", "export the model without it"}},
		{"no gradient", relu("Sign"), "y", "x", []string{`"y" has no gradient with respect to "x"`, `node "the_node" (Sign)`}},
		{"integers", relu("Cast", ir.Int("to", int64(ir.Int64))), "y", "x", []string{`node "the_node" (Cast)`}},
		{"not connected", relu("Relu"), "x", "y", []string{`"x" does not depend on "y"`}},
		{"no such value", relu("Relu"), "y", "z", []string{`no value "z"`}},
		{"no such readout", relu("Relu"), "", "x", []string{`no value ""`}},
		{"integer value", relu("Relu"), "y", "k", []string{`"k" has element type INT64`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := build(t, c.fill)
			before := ir.Clone(m)
			_, err := Gradient(m, c.of, []string{c.wrt})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q in it", err, want)
				}
			}
			if !proto.Equal(before, m) {
				t.Error("the model was changed")
			}
		})
	}
}

func TestRefusalOfARegistry(t *testing.T) {
	rules := Standard()
	rules["Exp"] = Rule{Refuse: "its table is missing"}
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
		g.AddNamed("e", "Exp", []string{"x"}, []string{"y"})
	})
	_, err := rules.Gradient(m, "y", []string{"x"})
	if err == nil || err.Error() != `node "e" (Exp): it cannot be differentiated: its table is missing` {
		t.Errorf("error %v", err)
	}
}

func TestOnlyShapesAreKnown(t *testing.T) {
	rules := Standard()
	rules["Exp"] = Rule{Infer: inferSame}
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
		g.AddNamed("e", "Exp", []string{"x"}, []string{"y"})
	})
	_, err := rules.Gradient(m, "y", []string{"x"})
	if err == nil || !strings.Contains(err.Error(), `node "e" (Exp): the gradient of this operator is not supported`) {
		t.Errorf("error %v", err)
	}
}

func TestOldOperatorSet(t *testing.T) {
	m := ir.NewModel("old", 3, 6)
	g, err := ir.NewGraph(m)
	must(t, err)
	must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
	g.AddNamed("e", "Exp", []string{"x"}, []string{"y"})
	if _, err := Gradient(m, "y", []string{"x"}); err == nil || !strings.Contains(err.Error(), "operator set 6") {
		t.Errorf("error %v", err)
	}
}

// Two calls on equal models add equal nodes.
func TestDeterministic(t *testing.T) {
	var first *onnxpb.ModelProto
	for range 5 {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Free("N"), ir.Fixed(3)))
			h := g.Add("Softmax", []string{g.Add("Exp", []string{"x"})})
			g.AddNamed("y", "Mul", []string{h, g.Add("Tanh", []string{"x"})}, []string{"y"})
		})
		_, err := Gradient(m, "y", []string{"x"})
		must(t, err)
		if first == nil {
			first = m
		}
		if !proto.Equal(first, m) {
			t.Fatal("two calls differ")
		}
	}
}

// Classifiers from other tools: the slope of the log density along its gradient is the gradient's length.
func TestRealClassifiers(t *testing.T) {
	dir := filepath.Join(testdata.Dir(t), "onnx", "models")
	for _, name := range []string{
		"cifar10-allconv", "cifar10-base-kw", "cifar10-resnet-2b", "mnist-mlp-256x2", "mnist-mlp-sigmoid-6x200", "tiny-mlp-opset13", "binary-mlp-keras-sigmoid",
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ir.LoadFile(filepath.Join(dir, name+".onnx"))
			if os.IsNotExist(err) {
				t.Skip(err)
			}
			must(t, err)
			inputs := m.Graph.Input[:0:0]
			for _, v := range m.Graph.Input {
				if !slices.ContainsFunc(m.Graph.Initializer, func(c *onnxpb.TensorProto) bool { return c.Name == v.Name }) {
					inputs = append(inputs, v)
				}
			}
			x, out := inputs[0].Name, m.Graph.Output[0].Name
			g, err := ir.NewGraph(m)
			must(t, err)
			density := g.Add("ReduceLogSumExp", []string{out}, ir.Int("keepdims", 0))
			grads, err := Gradient(m, density, []string{x})
			must(t, err)
			m.Graph.Output = nil
			g.Output(density, ir.Float32)
			_, shape, _ := ir.TensorType(inputs[0])
			g.Output(grads[0], ir.Float32, make([]ir.Dim, len(shape))...)
			s := session(t, runtimetest.Open(t), m)
			checkSlope(t, s)
		})
	}
}

func checkSlope(t *testing.T, s *ort.Session) {
	t.Helper()
	shape := []int64{}
	for _, d := range s.Inputs()[0].Shape {
		shape = append(shape, max(d, 1))
	}
	x := make([]float32, count(shape))
	for i := range x {
		x[i] = 0.5 + 0.3*float32(math.Sin(float64(3*i)))
	}
	at := func() (float64, []float32) {
		in, err := ort.Float32(shape, x)
		must(t, err)
		defer in.Close()
		out := make([]*ort.Tensor, 2)
		must(t, s.Run(context.Background(), []*ort.Tensor{in}, out))
		defer out[0].Close()
		defer out[1].Close()
		return float64(out[0].Data()[0]), slices.Clone(out[1].Data())
	}
	_, grad := at()
	norm := 0.0
	for _, v := range grad {
		norm += float64(v) * float64(v)
	}
	norm = math.Sqrt(norm)
	const h = 0.02
	move := func(by float64) {
		for i := range x {
			x[i] += float32(by * float64(grad[i]) / norm)
		}
	}
	move(h)
	up, _ := at()
	move(-2 * h)
	down, _ := at()
	slope := (up - down) / (2 * h)
	if math.Abs(slope-norm) > 0.02*norm {
		t.Errorf("slope along the gradient %v, its length %v", slope, norm)
	}
}

func FuzzGradient(f *testing.F) {
	for _, op := range append(Standard().Operators(), "Shape", "ConstantOfShape", "Where", "ConvTranspose", "ArgMax", "NonZero") {
		for _, opset := range []int64{9, 17} {
			m := ir.NewModel("fuzz", 8, opset)
			g, err := ir.NewGraph(m)
			must(f, err)
			must(f, g.Input("x", ir.Float32, ir.Free("N"), ir.Fixed(3), ir.Fixed(4)))
			must(f, g.Initializer(ir.Int64Tensor("axes", 1, -1)))
			must(f, g.Initializer(ir.Float32Tensor("w", []int64{2, 3, 3}, make([]float32, 18))))
			other := "w"
			if rule := Standard()[op]; rule.Gradient == nil || slices.Contains([]string{"Reshape", "Squeeze", "Unsqueeze", "ReduceSum", "Expand"}, op) {
				other = "axes"
			}
			g.AddNamed("n", op, []string{"x", other}, []string{"y"}, ir.Ints("axes", 1), ir.Int("axis", 1), ir.Ints("perm", 0, 2, 1))
			data, err := ir.Marshal(m)
			must(f, err)
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ir.Load(data)
		if err != nil || len(m.Graph.Input) == 0 || len(m.Graph.Node) == 0 {
			return
		}
		last := m.Graph.Node[len(m.Graph.Node)-1]
		if len(last.Output) == 0 {
			return
		}
		if _, err := Gradient(m, last.Output[0], []string{m.Graph.Input[0].Name}); err == nil {
			if err := ir.Check(m); err != nil {
				t.Error(fmt.Errorf("the gradient's graph does not hold together: %w", err))
			}
		}
	})
}

// Where the graph computes a shape, not even the rank is known, and the axes to sum over are found when it runs.
func TestUnknownRank(t *testing.T) {
	for _, keep := range []int64{0, 1} {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Fixed(2), ir.Fixed(3)))
			must(t, g.Initializer(ir.Float32Tensor("w", []int64{1, 3}, []float32{1, 2, 3})))
			must(t, g.Initializer(ir.Float32Tensor("v", []int64{1}, []float32{2})))
			free := unranked(t, g, "x")
			a := g.Add("Mul", []string{g.Add("Mul", []string{free, "w"}), unranked(t, g, "v")})
			square := g.Add("Mul", []string{a, a})
			g.AddNamed("y", "ReduceMean", []string{square}, []string{"y"}, ir.Int("keepdims", keep))
		})
		got := gradients(t, m, "y", []string{"x", "w", "v"}, []float32{1, 2, 3, 4, 5, 6})
		// y = sum (x w v)^2 / 6
		equal(t, got[0], 4./3, 32./3, 36, 16./3, 80./3, 72)
		equal(t, got[1], 17*4./3, 29*8./3, 45*4)
		equal(t, got[2], (17+4*29+9*45)*4./6)
	}
}
