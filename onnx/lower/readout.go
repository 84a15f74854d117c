package lower

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jempipe/jempipe/internal/nearest"
	"github.com/jempipe/jempipe/onnx/gradient"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/score"
)

// Readout is a number that a classifier's logits f(x) [K] give, of which a gradient is taken.
type Readout struct {
	Kind  string // a key of readouts
	Class int    // for those that are of a class
}

// Energy is the readout of score.onnx: its gradient is d logsumexp f(x) / dx = -dE/dx, the gradient of log p(x).
var Energy = Readout{Kind: "energy"}

// readouts are the kinds of readouts and whether they are of a class.
var readouts = map[string]bool{"energy": false, "confidence": false, "logit": true, "logprob": true, "loss": true}

// ParseReadout reads energy, confidence, logit:K, logprob:K or loss:K with a class K counted from 0.
func ParseReadout(text string) (Readout, error) {
	kind, class, given := strings.Cut(text, ":")
	ofClass, ok := readouts[kind]
	if !ok {
		err := fmt.Errorf("%q is none of energy, confidence, logit:K, logprob:K, loss:K", text)
		if near := nearest.To(kind, []string{"energy", "confidence", "logit", "logprob", "loss"}); near != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, near)
		}
		return Readout{}, err
	}
	if ofClass != given {
		if given {
			return Readout{}, fmt.Errorf("%q: %s is of no class", text, kind)
		}
		return Readout{}, fmt.Errorf("%q needs a class, such as %s:0", text, kind)
	}
	r := Readout{Kind: kind}
	if given {
		k, err := strconv.Atoi(class)
		if err != nil || k < 0 || k > math.MaxInt32 {
			return Readout{}, fmt.Errorf("%q: the class %q is not a number counted from 0", text, class)
		}
		r.Class = k
	}
	return r, nil
}

// String is the form that ParseReadout takes.
func (r Readout) String() string {
	if readouts[r.Kind] {
		return fmt.Sprintf("%s:%d", r.Kind, r.Class)
	}
	return r.Kind
}

// Check says whether a classifier with so many classes has the readout.
func (r Readout) Check(classes int) error {
	if readouts[r.Kind] && r.Class >= classes {
		return fmt.Errorf("%s: the model has the classes 0 to %d", r, classes-1)
	}
	return nil
}

// Of is the number itself, in float64.
func (r Readout) Of(logits []float32) float64 {
	lse := score.LogSumExp(logits)
	switch r.Kind {
	case "energy":
		return lse
	case "confidence":
		return math.Exp(float64(slices.Max(logits)) - lse)
	case "logit":
		return float64(logits[r.Class])
	case "loss":
		return lse - float64(logits[r.Class])
	}
	return float64(logits[r.Class]) - lse
}

// Add adds the readout [N] of the value logits, float32 [N, K], to a graph, and gives its name.
func (r Readout) Add(g *ir.Graph, logits string, classes int) (string, error) {
	if err := r.Check(classes); err != nil {
		return "", err
	}
	former := g.Scope("readout/")
	defer g.Scope(former)
	if r.Kind == "energy" {
		return logSumExp(g, logits)
	}
	if r.Kind == "confidence" {
		p := g.Add("Softmax", []string{logits}, ir.Int("axis", 1))
		return reduce(g, "ReduceMax", p)
	}
	picker := make([]float32, classes)
	picker[r.Class] = 1
	column, err := g.Constant(ir.Float32Tensor("class", []int64{int64(classes), 1}, picker))
	if err != nil {
		return "", err
	}
	z := logits
	if r.Kind != "logit" {
		z = g.Add("LogSoftmax", []string{z}, ir.Int("axis", 1))
	}
	if r.Kind == "loss" {
		z = g.Add("Neg", []string{z})
	}
	return g.Add("MatMul", []string{z, column}), nil
}

// logSumExp gives the value of AddEnergy where the graph has it, else a new one.
func logSumExp(g *ir.Graph, logits string) (string, error) {
	for _, n := range g.Model.Graph.Node {
		if n.GetOpType() == "ReduceLogSumExp" && n.GetName() == LogSumExp && n.Input[0] == logits {
			return LogSumExp, nil
		}
	}
	return reduce(g, "ReduceLogSumExp", logits)
}

// reduce combines the columns of [N, K].
func reduce(g *ir.Graph, op, x string) (string, error) {
	if ir.Opset(g.Model) < 18 {
		return g.Add(op, []string{x}, ir.Ints("axes", 1), ir.Int("keepdims", 0)), nil
	}
	axes, err := g.Constant(ir.Int64Tensor("class_axis", 1))
	if err != nil {
		return "", err
	}
	return g.Add(op, []string{x, axes}, ir.Int("keepdims", 0)), nil
}

// AddGradient adds to a model, as output called to, the gradient of the sum of the value `of` with respect to the
// value wrt, whose shape is given. Nodes that the outputs do not need go.
func AddGradient(m *onnxpb.ModelProto, of, wrt, to string, shape ...ir.Dim) error {
	return addGradient(m, gradient.Gradient, of, wrt, to, shape...)
}

// differentiate is gradient.Gradient in one of its forms.
type differentiate func(m *onnxpb.ModelProto, of string, wrt []string) ([]string, error)

func addGradient(m *onnxpb.ModelProto, by differentiate, of, wrt, to string, shape ...ir.Dim) error {
	grads, err := by(m, of, []string{wrt})
	if err != nil {
		return err
	}
	g, err := ir.NewGraph(m)
	if err != nil {
		return err
	}
	if err := g.Rename(grads[0], to); err != nil {
		return err
	}
	g.Output(to, ir.Float32, shape...)
	ir.Prune(m)
	return ir.Check(m)
}
