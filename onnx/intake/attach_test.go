package intake

import (
	"context"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/lower"
)

// attached is a case of a gradient that came with the model.
type attached struct {
	name   string
	change func(b *net, grad string) string // the gradient [N, 6] into what the file gives
	file   func(b *net)                     // a whole file instead
	err    string                           // of Attach
	wrong  string                           // of the self-test
}

// A gradient that others made is taken where it is right, and what is wrong with it is named.
func TestSuppliedGradients(t *testing.T) {
	rt := runtimetest.Open(t)
	model := newNet(t, 17)
	model.mlp(model.input("values", ir.Float32, 0, 6), 6, 3)
	model.output("z", 0, 3)
	cfg := Config{Preprocess: lower.Preprocess{SampleShape: []int{6}, Scale: 0.5, Mean: []float64{0.25}, Std: []float64{2}}}
	x := rows(probeRows, 6)
	c, err := Open(context.Background(), rt, write(t, model.m), cfg, x)
	must(t, err)
	for _, each := range []attached{
		{name: "right", change: func(_ *net, grad string) string { return grad }},
		{name: "right, in shape [N, 6, 1]", change: func(b *net, grad string) string { return b.reshape("tall", grad, 0, 6, 1) }},
		{name: "a frozen constant", wrong: "frozen constant", change: func(b *net, grad string) string {
			return b.op("frozen", "Expand", []string{b.weight("row", 1, 6), b.then("Shape", grad)})
		}},
		{name: "that of the mean of the batch", wrong: "mean over the batch", change: func(b *net, grad string) string {
			n := b.op("n", "Gather", []string{b.then("Shape", grad), b.ints("zero", 0)})
			return b.op("mean", "Div", []string{grad, b.then("Cast", n, ir.Int("to", int64(ir.Float32)))})
		}},
		{name: "that of the energy", wrong: "about -1 times", change: func(b *net, grad string) string { return b.then("Neg", grad) }},
		{name: "too few values", err: "which output is the gradient cannot be told: 0 of its float32 outputs have 6 values for a sample", file: func(b *net) {
			b.dense("score", b.input("values", ir.Float32, 0, 6), 6, 5)
			b.output("score", 0, 5)
		}},
		{name: "another sample shape", err: "its input values takes samples of shape [7], the model takes [6]", file: func(b *net) {
			b.dense("score", b.input("values", ir.Float32, 0, 7), 7, 6)
			b.output("score", 0, 6)
		}},
		{name: "a fixed batch", err: "its input values takes batches of 4 only", file: func(b *net) {
			b.dense("score", b.input("values", ir.Float32, 4, 6), 6, 6)
			b.output("score", 4, 6)
		}},
		{name: "another element type", err: "its input values is DOUBLE, want FLOAT", file: func(b *net) {
			b.then("Cast", b.input("values", ir.Float64, 0, 6), ir.Int("to", int64(ir.Float32)))
			b.output("Cast", 0, 6)
		}},
		{name: "two inputs", err: "a gradient graph has one input, this one has 2", file: func(b *net) {
			b.op("score", "Add", []string{b.input("values", ir.Float32, 0, 6), b.input("others", ir.Float32, 0, 6)})
			b.output("score", 0, 6)
		}},
		{name: "two outputs that could be", err: "which output is the gradient cannot be told: 2 of its float32 outputs", file: func(b *net) {
			b.dense("left", b.input("values", ir.Float32, 0, 6), 6, 6)
			b.dense("right", "values", 6, 6)
			b.output("left", 0, 6)
			b.output("right", 0, 6)
		}},
		{name: "only called a gradient", wrong: "disagrees", file: func(b *net) {
			b.dense("Grad", b.input("values", ir.Float32, 0, 6), 6, 6)
			b.op("right", "Tanh", []string{"Grad"})
			b.output("Grad", 0, 6)
			b.output("right", 0, 6)
		}},
	} {
		t.Run(each.name, func(t *testing.T) { each.run(t, c, model, x) })
	}
}

func (a *attached) run(t *testing.T, c *Classifier, model *net, x []float32) {
	var b *net
	if a.file != nil {
		b = newNet(t, 19) // another operator set than that of the model
		a.file(b)
	} else { // the names of the model again, and its gradient in model space
		m := ir.Clone(model.m)
		g, err := ir.NewGraph(m)
		must(t, err)
		of, err := lower.Energy.Add(g, "z", 3)
		must(t, err)
		must(t, lower.AddGradient(m, of, "values", "gradient", ir.Dim{}, ir.Fixed(6)))
		g, err = ir.NewGraph(m)
		must(t, err)
		b = &net{TB: t, m: m, g: g, elem: ir.Float32}
		m.Graph.Output = nil
		b.output(a.change(b, "gradient"), 0, 6)
		m.Graph.Output[0].Type.GetTensorType().Shape = nil
	}
	with := *c
	m, err := c.Attach(write(t, b.m), false)
	if a.err != "" {
		if err == nil || !contains(err, a.err) {
			t.Errorf("error %v, want one with %q", err, a.err)
		}
		return
	}
	must(t, err)
	with.Model = m
	s := session(t, &with)
	g, err := with.TestGraph(s, lower.Energy, false)
	must(t, err)
	_, err = g.Run(context.Background(), x, 1)
	if a.wrong == "" {
		must(t, err)
	} else if err == nil || !contains(err, a.wrong) {
		t.Errorf("error %v, want one with %q", err, a.wrong)
	}
}

// A gradient for raw samples takes these; one for a model with one batch size may have that.
func TestSuppliedGradientForRawSamples(t *testing.T) {
	rt := runtimetest.Open(t)
	for _, batch := range []int64{0, 3} {
		b := newNet(t, 17)
		h := b.input("values", ir.Float32, batch, 6)
		if batch > 0 { // so that the batch cannot be freed
			order := b.ints("order", 2, 1, 0)
			h = b.op("once_more", "Gather", []string{b.op("reversed", "Gather", []string{h, order}), order})
		}
		b.mlp(h, 6, 3)
		b.output("z", batch, 3)
		cfg := Config{Preprocess: lower.Preprocess{SampleShape: []int{6}, Scale: 0.5, Mean: []float64{0.25}, Std: []float64{2}}}
		x := rows(probeRows, 6)
		c, err := Open(context.Background(), rt, write(t, b.m), cfg, x)
		must(t, err)
		if c.Batch != int(batch) {
			t.Fatalf("batch %d", c.Batch)
		}
		ours := *c
		ours.Model = ir.Clone(c.Model)
		must(t, ours.AddScore(lower.Energy, true))
		with := *c
		with.Model, err = c.Attach(write(t, ours.Model), true)
		must(t, err)
		s := session(t, &with)
		g, err := with.TestGraph(s, lower.Energy, true)
		must(t, err)
		if _, err := g.Run(context.Background(), x, 1); err != nil {
			t.Error(err)
		}
	}
}

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }
