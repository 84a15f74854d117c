package gradient

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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
	runtimeOrSkip(b)
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

// layer is a convolution of a batch of square images.
type layer struct{ batch, in, out, size, kernel, stride, pad int64 }

func (l layer) places() int64 { return (l.size+2*l.pad-l.kernel)/l.stride + 1 }

func (l layer) String() string {
	return fmt.Sprintf("%dx%dx%dx%d-%d,k%d,s%d", l.batch, l.in, l.size, l.size, l.out, l.kernel, l.stride)
}

// graph is an empty graph with x, dy and w as inputs; w may be a constant instead.
func (l layer) graph(b *testing.B, constant bool) *ir.Graph {
	b.Helper()
	g, err := ir.NewGraph(ir.NewModel("bench", 8, 17))
	must(b, err)
	shape := []int64{l.out, l.in, l.kernel, l.kernel}
	must(b, g.Input("x", ir.Float32, ir.FixedDims(l.batch, l.in, l.size, l.size)...))
	must(b, g.Input("dy", ir.Float32, ir.FixedDims(l.batch, l.out, l.places(), l.places())...))
	if constant {
		must(b, g.Initializer(ir.Float32Tensor("w", shape, make([]float32, count(shape)))))
	} else {
		must(b, g.Input("w", ir.Float32, ir.FixedDims(shape...)...))
	}
	return g
}

// node is the context of the layer's Conv, at which form adds a gradient that becomes the graph's output.
func (l layer) model(b *testing.B, constant bool, form func(c *Context, v window) string) *onnxpb.ModelProto {
	b.Helper()
	g := l.graph(b, constant)
	g.AddNamed("conv", "Conv", []string{"x", "w"}, []string{"y"}, ir.Ints("kernel_shape", l.kernel, l.kernel),
		ir.Ints("strides", l.stride, l.stride), ir.Ints("pads", l.pad, l.pad, l.pad, l.pad))
	w, err := newWalk(g.Model, Standard(), "y", []string{"x"})
	must(b, err)
	c := w.context(g.Model.Graph.Node[0], "grad/")
	c.g = g
	c.grads[0] = cotangent{name: "dy"}
	v, err := c.slidingWindow()
	must(b, err)
	out := form(c, v)
	must(b, c.err)
	g, err = ir.NewGraph(c.walk.g.Model)
	must(b, err)
	g.Output(out, ir.Float32, c.types[out].Shape...)
	return g.Model
}

// BenchmarkConv measures the gradients of the layers of two small networks in their forms, in units of the forward
// convolution: the input gradient by a transposed convolution and by a flipped one where that is possible, the gradient
// of the weights with columns from a convolution, with gathered rows, and with batch and channel exchanged.
func BenchmarkConv(b *testing.B) {
	forward := func(c *Context, _ window) string { return c.Out(0) }
	for _, l := range []layer{
		{64, 1, 32, 28, 3, 2, 1}, {64, 32, 64, 14, 3, 2, 1},
		{64, 1, 16, 28, 5, 2, 2}, {64, 16, 32, 14, 3, 2, 1},
		{64, 3, 32, 32, 3, 1, 1}, {64, 32, 32, 16, 3, 1, 1}, {64, 64, 64, 8, 1, 1, 0},
	} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("input/%s/threads=%d", l, threads), func(b *testing.B) {
				list := []timed{
					prepare(b, "forward", l.model(b, true, forward), threads),
					prepare(b, "transposed", l.model(b, true, func(c *Context, v window) string { return c.transposedConv(v, "dy", "w", "x", 1) }), threads),
				}
				if l.stride == 1 {
					list = append(list, prepare(b, "flipped", l.model(b, true, func(c *Context, v window) string { return c.flippedConv(v, "dy", "w", 1) }), threads))
				}
				compare(b, list)
			})
			b.Run(fmt.Sprintf("weight/%s/threads=%d", l, threads), func(b *testing.B) {
				list := []timed{prepare(b, "forward", l.model(b, false, forward), threads)}
				for _, form := range []struct {
					name string
					add  func(c *Context, v window) string
				}{
					{"chosen", func(c *Context, v window) string { return c.windowWeight(v, "x", "dy", "w", 1) }},
					{"columns", func(c *Context, v window) string { return c.weightByColumns(v, "x", "dy", "w", 1) }},
					{"gathered", func(c *Context, v window) string { return c.weightByGather(v, "x", "dy", "w") }},
					{"swapped", func(c *Context, v window) string { return c.weightBySwap(v, "x", "dy", "w") }},
				} {
					list = append(list, prepare(b, form.name, l.model(b, false, form.add), threads))
				}
				compare(b, list)
			})
		}
	}
}
