package intake

import (
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/gradient"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
)

// least is the smallest probability that has a logarithm here: the smallest normal float32, of logarithm -87.3.
const least = 0x1p-126

// expected turns what the file gives into logits, in Go, as finish does in the graph.
func (a *adapter) expected(truth []result) result {
	from := truth[1]
	if a.logits == a.answer {
		from = truth[0]
	}
	logOf := func(p float64) float32 { return float32(math.Log(max(p, least))) }
	out := result{a.c.Classes, nil}
	for _, v := range from.values {
		switch a.form {
		case formOneLogit:
			out.values = append(out.values, 0, v)
		case formOneProbability:
			out.values = append(out.values, logOf(1-float64(v)), logOf(float64(v)))
		case formProbabilities:
			out.values = append(out.values, logOf(float64(v)))
		default:
			out.values = append(out.values, v)
		}
	}
	return out
}

// finish gives the graph the outputs of a classifier and drops what they do not need.
func (a *adapter) finish(truth []result) error {
	m := a.m
	if ir.Opset(m) == 0 { // a model of nothing but machine-learning operators need not import the standard ones
		m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Version: lower.Opset})
	}
	m.Graph.Output = nil
	k := a.c.Classes
	columns := k
	if a.form == formOneLogit || a.form == formOneProbability {
		columns = 1
	}
	if a.features != "" {
		if err := a.rename(a.matrix(a.features, truth[2].width), lower.OutputFeatures); err != nil {
			return err
		}
		if a.logits == a.features {
			a.logits = lower.OutputFeatures
		}
		a.c.Features = truth[2].width
	}
	z, err := a.columns(a.matrix(a.logits, columns))
	if err != nil {
		return err
	}
	if err := a.rename(z, lower.OutputLogits); err != nil {
		return err
	}
	a.output(lower.OutputLogits, k)
	if a.c.EnergyReason == "" {
		if err := lower.AddEnergy(a.g); err != nil {
			return err
		}
		a.output(lower.OutputEnergy)
	}
	if a.features != "" {
		a.output(lower.OutputFeatures, a.c.Features)
	}
	ir.Prune(m)
	a.c.Model = m
	return ir.Check(m)
}

func (a *adapter) output(name string, shape ...int) {
	a.g.Output(name, ir.Float32, a.c.rows(shape...)...)
}

// matrix brings a value to float32 [N, width].
func (a *adapter) matrix(name string, width int) string {
	t := gradient.Types(a.m)[name]
	if t.Elem != ir.Float32 {
		name = a.g.Add("Cast", []string{name}, ir.Int("to", int64(ir.Float32)))
	}
	if t.Ranked && len(t.Shape) == 2 && t.Shape[1].Is(int64(width)) {
		return name
	}
	shape, err := a.g.Constant(ir.Int64Tensor("rows", -1, int64(width)))
	if err != nil {
		return name
	}
	return a.g.Add("Reshape", []string{name, shape})
}

// columns turns one logit into two, and probabilities into their logarithms.
func (a *adapter) columns(z string) (string, error) {
	constant := func(name string, shape []int64, v ...float32) (out string) {
		out, err := a.g.Constant(ir.Float32Tensor(name, shape, v))
		if err != nil {
			return ""
		}
		return out
	}
	row := []int64{1, 2}
	switch a.form {
	case formOneLogit:
		z = a.g.Add("MatMul", []string{z, constant("second_of_two", row, 0, 1)})
	case formOneProbability:
		z = a.g.Add("MatMul", []string{z, constant("both_of_two", row, -1, 1)})
		z = a.g.Add("Add", []string{z, constant("rest_of_one", row, 1, 0)})
	}
	if a.form == formOneProbability || a.form == formProbabilities {
		z = a.g.Add("Max", []string{z, constant("least", nil, least)})
		z = a.g.Add("Log", []string{z})
	}
	return z, nil
}

// rename calls a value by the name of an output; one that must keep its name is copied.
func (a *adapter) rename(from, to string) error {
	if a.maker(from) == nil || slices.Contains(reserved, from) {
		a.g.AddNamed(to, "Identity", []string{from}, []string{to})
		return nil
	}
	return a.g.Rename(from, to)
}
