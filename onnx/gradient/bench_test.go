package gradient

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// timed is a graph with its inputs and outputs in place.
type timed struct {
	name string
	run  func() error
}

// compare runs graphs in turns and reports the least time of each, the first one's as such and the others' in units of
// it: turns and minima make the ratios steady on a machine that has other work.
func compare(b *testing.B, list []timed) {
	b.Helper()
	times := make([][]float64, len(list))
	for b.Loop() {
		for i, m := range list {
			start := time.Now()
			must(b, m.run())
			times[i] = append(times[i], float64(time.Since(start)))
		}
	}
	base := slices.Min(times[0])
	b.ReportMetric(base/1e3, list[0].name+"-us")
	for i, m := range list[1:] {
		b.ReportMetric(slices.Min(times[i+1])/base, m.name+"/"+list[0].name)
	}
}

// prepare loads a model with some threads and feeds it noise; its outputs stay within the runtime.
func prepare(b *testing.B, name string, m *onnxpb.ModelProto, threads int) timed {
	b.Helper()
	runtimetest.Open(b)
	r, err := ort.Open(ort.Config{Provider: "cpu", Threads: threads}, nil)
	must(b, err)
	data, err := ir.Marshal(m)
	must(b, err)
	s, err := r.Session(data, ort.SessionOptions{Threads: threads})
	must(b, err)
	b.Cleanup(func() { must(b, s.Close()) })
	rng := rand.New(rand.NewPCG(1, 1))
	var in []*ort.Tensor
	for _, v := range s.Inputs() {
		values := make([]float32, count(v.Shape))
		for i := range values {
			values[i] = rng.Float32() - 0.5
		}
		t, err := ort.Float32(v.Shape, values)
		must(b, err)
		b.Cleanup(t.Close)
		in = append(in, t)
	}
	out := make([]*ort.Tensor, len(s.Outputs()))
	return timed{name, func() error {
		defer func() {
			for i, t := range out {
				if t != nil {
					t.Close()
				}
				out[i] = nil
			}
		}()
		return s.Run(context.Background(), in, out)
	}}
}

// formOf builds a graph with the inputs x, dy and, unless it is a constant, w, and the node y = op(x, w), at which form
// adds a gradient that becomes the graph's output.
func formOf(b *testing.B, x, dy, w []int64, constant bool, op string, attrs []*onnxpb.AttributeProto, form func(c *Context, v window) string) *onnxpb.ModelProto {
	b.Helper()
	g, err := ir.NewGraph(ir.NewModel("bench", 8, 17))
	must(b, err)
	must(b, g.Input("x", ir.Float32, ir.FixedDims(x...)...))
	must(b, g.Input("dy", ir.Float32, ir.FixedDims(dy...)...))
	args := []string{"x"}
	switch {
	case w == nil:
	case constant:
		must(b, g.Initializer(ir.Float32Tensor("w", w, make([]float32, count(w)))))
		args = append(args, "w")
	default:
		must(b, g.Input("w", ir.Float32, ir.FixedDims(w...)...))
		args = append(args, "w")
	}
	g.AddNamed("node", op, args, []string{"y"}, attrs...)
	walk, err := newWalk(g.Model, Standard(), "y", []string{"x"})
	must(b, err)
	walk.depends["x"] = true
	c := walk.context(g.Model.Graph.Node[0], "grad/")
	c.grads[0] = cotangent{name: "dy"}
	v, err := c.slidingWindow()
	must(b, err)
	out := form(c, v)
	must(b, c.err)
	g, err = ir.NewGraph(g.Model)
	must(b, err)
	g.Output(out, ir.Float32, c.types[out].Shape...)
	return g.Model
}

func forwardForm(c *Context, _ window) string { return c.Out(0) }

// layer is a convolution of a batch of square images.
type layer struct{ batch, in, out, size, kernel, stride, pad int64 }

func (l layer) String() string {
	return fmt.Sprintf("%dx%dx%dx%d-%d,k%d,s%d", l.batch, l.in, l.size, l.size, l.out, l.kernel, l.stride)
}

func (l layer) attrs() []*onnxpb.AttributeProto {
	return []*onnxpb.AttributeProto{ir.Ints("kernel_shape", l.kernel, l.kernel), ir.Ints("strides", l.stride, l.stride), ir.Ints("pads", l.pad, l.pad, l.pad, l.pad)}
}

func (l layer) shapes() (x, dy, w []int64) {
	places := (l.size+2*l.pad-l.kernel)/l.stride + 1
	return []int64{l.batch, l.in, l.size, l.size}, []int64{l.batch, l.out, places, places}, []int64{l.out, l.in, l.kernel, l.kernel}
}

// form is one way to write a gradient.
type form struct {
	name string
	add  func(c *Context, v window) string
}

func (l layer) compare(b *testing.B, threads int, constant bool, op string, forms ...form) {
	b.Helper()
	x, dy, w := l.shapes()
	if op != "Conv" {
		w = nil
	}
	var list []timed
	for _, f := range append([]form{{"forward", forwardForm}}, forms...) {
		list = append(list, prepare(b, f.name, formOf(b, x, dy, w, constant, op, l.attrs(), f.add), threads))
	}
	compare(b, list)
}

// BenchmarkConv measures the gradients of convolutions in their forms, in units of the forward convolution: the input
// gradient by a transposed convolution and by a flipped one, or with a stride in phases, the gradient of the weights with
// columns from a convolution, with gathered rows, and with batch and channel exchanged.
func BenchmarkConv(b *testing.B) {
	for _, l := range []layer{
		{64, 1, 32, 28, 3, 2, 1}, {64, 32, 64, 14, 3, 2, 1},
		{64, 1, 16, 28, 5, 2, 2}, {64, 16, 32, 14, 3, 2, 1},
		{64, 3, 32, 32, 3, 1, 1}, {64, 32, 32, 16, 3, 1, 1}, {64, 64, 64, 8, 1, 1, 0},
	} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("input/%s/threads=%d", l, threads), func(b *testing.B) {
				forms := []form{{"transposed", func(c *Context, v window) string { return c.transposedConv(v, "dy", "w", "x", 1) }}}
				if l.stride == 1 {
					forms = append(forms, form{"flipped", func(c *Context, v window) string { return c.flippedConv(v, "dy", "w", 1) }})
				} else {
					forms = append(forms, form{"phased", func(c *Context, v window) string { return c.phasedInput(v, "dy", "w", "x") }})
				}
				l.compare(b, threads, true, "Conv", forms...)
			})
			b.Run(fmt.Sprintf("weight/%s/threads=%d", l, threads), func(b *testing.B) {
				l.compare(b, threads, false, "Conv",
					form{"columns", func(c *Context, v window) string { return c.weightByColumns(v, "x", "dy", "w", 1) }},
					form{"gathered", func(c *Context, v window) string { return c.weightByGather(v, "x", "dy", "w") }},
					form{"swapped", func(c *Context, v window) string { return c.weightBySwap(v, "x", "dy", "w") }})
			})
		}
	}
}

// BenchmarkPool measures the gradients of pooling in their forms, in units of the forward operator.
func BenchmarkPool(b *testing.B) {
	through := func(rule func(*Context) error) func(c *Context, _ window) string {
		return func(c *Context, _ window) string {
			must(b, rule(c))
			return c.walk.parts["x"][0].name
		}
	}
	for _, l := range []layer{{64, 32, 32, 28, 2, 2, 0}, {64, 32, 32, 28, 3, 2, 1}, {64, 32, 32, 14, 3, 1, 1}} {
		b.Run(fmt.Sprintf("MaxPool/%s", l), func(b *testing.B) {
			l.compare(b, 1, false, "MaxPool", form{"chosen", through(maxPoolGradient)},
				form{"indices", func(c *Context, v window) string { return c.maxByIndices(v, "dy") }})
		})
		b.Run(fmt.Sprintf("AveragePool/%s", l), func(b *testing.B) {
			l.compare(b, 1, false, "AveragePool", form{"chosen", through(averagePoolGradient)},
				form{"transposed", func(c *Context, v window) string {
					return c.transposedConv(v, c.Scale("dy", 0.25), c.allOnes("x", []int64{l.in, 1, l.kernel, l.kernel}), "x", l.in)
				}},
				form{"matrices", func(c *Context, v window) string {
					_, dy, _ := l.shapes()
					return c.spreadByMatrix(v, "dy", []int64{l.size, l.size}, dy[2:], true, false)
				}})
		})
	}
}

// BenchmarkConvNet measures the gradients of a network 1x28x28, convolution 32, convolution 64 (3x3, stride 2), dense
// at batch 64 in units of its forward pass: of the input with the weights built in, of the weights as inputs.
func BenchmarkConvNet(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			compare(b, []timed{
				prepare(b, "forward", convNet(b, true), threads),
				prepare(b, "input", convNet(b, true, "x"), threads),
				prepare(b, "forward-open", convNet(b, false), threads),
				prepare(b, "weights", convNet(b, false, "w1", "b1", "w2", "b2", "w3", "b3"), threads),
			})
		})
	}
}

func convNet(b *testing.B, constant bool, wrt ...string) *onnxpb.ModelProto {
	b.Helper()
	g, err := ir.NewGraph(ir.NewModel("net", 8, 17))
	must(b, err)
	must(b, g.Input("x", ir.Float32, ir.FixedDims(64, 1, 28, 28)...))
	parameter := func(name string, shape ...int64) {
		if constant {
			must(b, g.Initializer(ir.Float32Tensor(name, shape, slices.Repeat([]float32{0.01}, count(shape)))))
		} else {
			must(b, g.Input(name, ir.Float32, ir.FixedDims(shape...)...))
		}
	}
	parameter("w1", 32, 1, 3, 3)
	parameter("b1", 32)
	parameter("w2", 64, 32, 3, 3)
	parameter("b2", 64)
	parameter("w3", 3136, 10)
	parameter("b3", 10)
	half := []*onnxpb.AttributeProto{ir.Ints("kernel_shape", 3, 3), ir.Ints("strides", 2, 2), ir.Ints("pads", 1, 1, 1, 1)}
	h := g.Add("LeakyRelu", []string{g.Add("Conv", []string{"x", "w1", "b1"}, half...)}, ir.Float("alpha", 0.1))
	h = g.Add("LeakyRelu", []string{g.Add("Conv", []string{h, "w2", "b2"}, half...)}, ir.Float("alpha", 0.1))
	g.AddNamed("dense", "Gemm", []string{g.Add("Flatten", []string{h}), "w3", "b3"}, []string{"y"})
	g.AddNamed("read", "ReduceLogSumExp", []string{"y"}, []string{"out"}, ir.Ints("axes", 1), ir.Int("keepdims", 0))
	if wrt == nil {
		g.Output("y", ir.Float32, ir.FixedDims(64, 10)...)
		return g.Model
	}
	grads, err := Gradient(g.Model, "out", wrt)
	must(b, err)
	g, err = ir.NewGraph(g.Model)
	must(b, err)
	for _, name := range grads {
		g.Output(name, ir.Float32)
	}
	for _, v := range g.Model.Graph.Output {
		v.Type.GetTensorType().Shape = nil
	}
	return g.Model
}
