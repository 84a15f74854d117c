package intake

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/internal/testdata"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/score"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// public is a model that others trained, with what must be found in it.
type public struct {
	name       string
	data       string // file with raw samples
	pre        lower.Preprocess
	classes    int
	reference  bool // NAME.ref*: what the file gives for the first rows of data
	rows       int  // of the reference
	from       string
	features   int
	energy     string // EnergyReason
	names      []string
	noGradient string // part of the reason why there is none
	slow       bool   // a pass takes long, so fewer rows must do
}

var (
	a255  = lower.Preprocess{Scale: 1.0 / 255}
	half  = lower.Preprocess{Scale: 1.0 / 255, Mean: []float64{0.5}, Std: []float64{0.5}}
	normA = lower.Preprocess{Scale: 1.0 / 255, Mean: []float64{0.4914, 0.4822, 0.4465}, Std: []float64{0.2471, 0.2435, 0.2616}}
	normB = lower.Preprocess{Scale: 1.0 / 255, Mean: []float64{0.485, 0.456, 0.406}, Std: []float64{0.225}}
)

const (
	mnist = "mnist/t10k-images-idx3-ubyte.gz"
	cifar = "cifar10/test100-lossless-images-idx4-ubyte.gz"
	wine  = "tabular/wine.csv.gz"
	iris  = "tabular/iris.csv.gz"
)

var publicModels = []public{
	{name: "mnist-cntk-zoo8", data: mnist, classes: 10, reference: true, from: "output Plus214_Output_0", features: 256},
	{name: "mnist-cntk-optimised", data: mnist, classes: 10, reference: true, from: "output", features: 256},
	{name: "mnist-cnn-pytorch-opset11", data: mnist, pre: half, classes: 10, reference: true, from: "output", features: 128},
	{name: "mnist-mlp-256x2", data: mnist, pre: a255, classes: 10, reference: true, from: "output", features: 256},
	{name: "mnist-convnet-avgpool", data: mnist, pre: a255, classes: 10, reference: true, from: "output", features: 1152},
	{name: "mnist-mlp-sigmoid-6x200", data: mnist, pre: a255, classes: 10, reference: true, from: "output", features: 200},
	{name: "cifar10-resnet-2b", data: cifar, pre: normA, classes: 10, reference: true, from: "output", features: 100},
	{name: "cifar10-resnet-4b", data: cifar, pre: normA, classes: 10, reference: true, from: "output", features: 100},
	{name: "cifar10-base-kw", data: cifar, pre: normB, classes: 10, reference: true, from: "output", features: 100},
	{name: "cifar10-allconv", data: cifar, pre: normA, classes: 10, reference: true, from: "output", slow: true},
	{name: "wine-lgbm-hummingbird", data: wine, classes: 3, reference: true, from: "the input of the final Softmax", noGradient: "Less"},
	{name: "wine-xgboost-trees", data: wine, classes: 3, reference: true, from: "the logarithm", energy: ProbabilitiesOnly, noGradient: ProbabilitiesOnly},
	{name: "iris-randomforest-sklearn", data: iris, classes: 3, from: "the logarithm", energy: ProbabilitiesOnly, noGradient: ProbabilitiesOnly},
	{name: "binary-mlp-keras-sigmoid", classes: 2, from: "as the second of two classes", features: 32},
	{name: "tiny-mlp-opset13", classes: 2, from: "output", features: 5},
}

// samples gives raw rows for a model, from its data set, or made up where there is none.
func (p *public) samples(t testing.TB, n int) ([]int, []float32) {
	if p.data != "" {
		path := filepath.Join(testdata.Dir(t), p.data)
		var shape []int
		var x []float32
		if strings.HasPrefix(p.data, "tabular") {
			shape, x, _ = testdata.Features(t, path)
		} else {
			shape, x = testdata.IDX(t, path, n)
		}
		width := size(shape[1:])
		return shape[1:], x[:min(n, shape[0])*width]
	}
	shape := map[string][]int{"binary-mlp-keras-sigmoid": {100}, "tiny-mlp-opset13": {3}}[p.name]
	x := make([]float32, n*size(shape))
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	return shape, x
}

func (p *public) open(t testing.TB, n int) (*Classifier, []float32) {
	t.Helper()
	shape, x := p.samples(t, n)
	cfg := Config{Preprocess: p.pre}
	cfg.Preprocess.SampleShape = shape
	c, err := Open(context.Background(), runtimetest.Open(t), filepath.Join(testdata.Dir(t), "onnx/models", p.name+".onnx"), cfg, x)
	must(t, err)
	return c, x
}

// All public classifiers: what is found in them, and their logits against the stored outputs.
func TestPublicModels(t *testing.T) {
	for _, p := range publicModels {
		t.Run(p.name, func(t *testing.T) {
			c, x := p.open(t, 16)
			t.Logf("%s; %d features; notes %q", c.From, c.Features, c.Notes)
			if c.Classes != p.classes || c.Features != p.features || c.Batch != 0 || c.EnergyReason != p.energy || !strings.Contains(c.From, p.from) {
				t.Errorf("classes %d, features %d, batch %d, energy %q, from %q", c.Classes, c.Features, c.Batch, c.EnergyReason, c.From)
			}
			got := logits(t, c, x, 16)
			if p.reference {
				p.compare(t, c, got)
			}
		})
	}
}

// compare holds logits against the outputs in the reference file, which are probabilities where the model gives those.
func (p *public) compare(t *testing.T, c *Classifier, got []float32) {
	files, err := filepath.Glob(filepath.Join(testdata.Dir(t), "onnx/models", p.name+".ref*"))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("reference files %v", files)
	}
	_, want := testdata.IDX(t, files[0], 16)
	if len(want) != len(got) {
		t.Fatalf("%d logits, the reference has %d", len(got), len(want))
	}
	if strings.HasPrefix(p.name, "wine") {
		for i := 0; i < len(got); i += c.Classes {
			lse := score.LogSumExp(got[i : i+c.Classes])
			for k := range c.Classes {
				got[i+k] = float32(math.Exp(float64(got[i+k]) - lse))
			}
		}
	}
	if row, d := furthest(result{c.Classes, got}, result{c.Classes, want}); !(d <= 1e-4) {
		t.Errorf("row %d differs from the reference by %g of the largest value", row, d)
	}
}

func session(t *testing.T, c *Classifier) *ort.Session {
	t.Helper()
	data, err := ir.Marshal(c.Model)
	must(t, err)
	s, err := runtimetest.Open(t).Session(data, ort.SessionOptions{Threads: 1})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// outputs runs a model on n rows.
func outputs(t *testing.T, s *ort.Session, names []string, x []float32, n int, shape []int) [][]float32 {
	t.Helper()
	call, err := s.Bind([]string{"x"}, names)
	must(t, err)
	in, err := ort.Float32(append([]int64{int64(n)}, sizes(shape)...), x[:n*size(shape)])
	must(t, err)
	defer in.Close()
	out := make([]*ort.Tensor, len(names))
	must(t, call.Run(context.Background(), []*ort.Tensor{in}, out))
	values := make([][]float32, len(names))
	for i, o := range out {
		values[i] = append([]float32{}, o.Data()...)
		o.Close()
	}
	return values
}

func logits(t *testing.T, c *Classifier, x []float32, n int) []float32 {
	return outputs(t, session(t, c), []string{"logits"}, x, n, c.Preprocess.SampleShape)[0]
}

// The gradients of all public classifiers: self-test, directional differences, the same at every batch size.
func TestPublicGradients(t *testing.T) {
	for _, p := range publicModels {
		t.Run(p.name, func(t *testing.T) {
			rows, tested := 64, 16
			if p.slow {
				rows, tested = 8, 2
			}
			c, x := p.open(t, rows)
			err := c.AddScore(lower.Energy, false)
			if p.noGradient != "" {
				if err == nil || !strings.Contains(err.Error(), p.noGradient) {
					t.Errorf("error %v, want one with %q", err, p.noGradient)
				}
				return
			}
			must(t, err)
			s := session(t, c)
			g, err := c.TestGraph(s, lower.Energy, false)
			must(t, err)
			report, err := g.Run(context.Background(), x[:tested*size(c.Preprocess.SampleShape)], 1)
			t.Logf("%+v", report)
			must(t, err)
			checkBatches(t, c, s, x)
		})
	}
}

// checkBatches compares the score of all rows together with that in batches of 1 and 7.
func checkBatches(t *testing.T, c *Classifier, s *ort.Session, x []float32) {
	width := size(c.Preprocess.SampleShape)
	rows := len(x) / width
	all := outputs(t, s, []string{"score"}, x, rows, c.Preprocess.SampleShape)[0]
	for _, n := range []int{1, 7} {
		for at := 0; at+n <= rows; at += n {
			part := outputs(t, s, []string{"score"}, x[at*width:], n, c.Preprocess.SampleShape)[0]
			if row, d := furthest(result{width, part}, result{width, all[at*width : (at+n)*width]}); !(d <= 1e-4) {
				t.Fatalf("batch of %d from row %d: row %d differs by %g", n, at, row, d)
			}
		}
	}
}
