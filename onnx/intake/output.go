package intake

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/onnx/gradient"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	"github.com/jempipe/jempipe/score"
)

// form is what the value that is used holds.
type form int

const (
	formLogits form = iota
	formOneLogit
	formProbabilities
	formOneProbability
)

// findOutput chooses the value with the logits: what the file gives, or what it has in front of a final softmax.
func (a *adapter) findOutput() error {
	if a.cfg.Output != "" {
		a.answer = a.value(a.cfg.Output)
		if !a.known(a.answer) {
			return fmt.Errorf("the model has no value %q; its outputs are %s", a.cfg.Output, strings.Join(a.outputNames(), ", "))
		}
	} else if err := a.pickOutput(); err != nil {
		return err
	}
	a.answer = a.withoutMap(a.answer)
	if elem := a.elem(a.answer); elem != 0 && !ir.IsFloat(elem) {
		return fmt.Errorf("value %s is %s, logits and probabilities are floating-point numbers; the outputs are %s",
			a.original(a.answer), ir.ElemName(elem), strings.Join(a.outputNames(), ", "))
	}
	a.logits, a.c.From = a.answer, fmt.Sprintf("output %s", a.original(a.answer))
	if n := a.maker(a.answer); n != nil && a.cfg.Kind != Logits {
		if last, ok := a.activation(n); ok {
			a.last = last
			a.logits, a.c.From = last.Input[0], fmt.Sprintf("the input of the final %s, %s", last.OpType, ir.Describe(last))
		}
	}
	return nil
}

// activation finds the softmax, sigmoid or log-softmax at the end of a graph, behind which there is nothing but nodes
// that move values.
func (a *adapter) activation(n *onnxpb.NodeProto) (*onnxpb.NodeProto, bool) {
	for n != nil && ir.IsStandard(n.GetDomain()) && len(n.GetInput()) > 0 {
		switch n.GetOpType() {
		case "Softmax", "LogSoftmax", "Sigmoid":
			return n, true
		case "Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze":
		case "Cast":
			if !ir.IsFloat(int32(ir.AttrInt(n, "to", 0))) {
				return nil, false
			}
		default:
			return nil, false
		}
		n = a.maker(n.Input[0])
	}
	return nil, false
}

// pickOutput chooses among the outputs of the file.
func (a *adapter) pickOutput() error {
	var found []string
	for _, v := range a.m.Graph.Output {
		other := v.GetType().GetValue() != nil && v.GetType().GetTensorType() == nil // a sequence, a map
		elem := a.elem(v.GetName())
		if a.mapped(v.GetName()) != nil || !other && (elem == 0 || ir.IsFloat(elem)) {
			found = append(found, v.GetName())
		}
	}
	if named := slices.DeleteFunc(slices.Clone(found), func(s string) bool { return !strings.Contains(strings.ToLower(s), "logit") }); len(named) == 1 {
		found = named
	}
	// A model that gives logits and the softmax of them has one answer.
	found = slices.DeleteFunc(found, func(name string) bool {
		n := a.maker(name)
		if n == nil || len(found) < 2 {
			return false
		}
		last, ok := a.activation(n)
		return ok && slices.Contains(found, last.Input[0])
	})
	if len(found) != 1 {
		return fmt.Errorf("which output holds the logits cannot be told: the model has %s; name one with output", strings.Join(a.outputNames(), ", "))
	}
	a.answer = found[0]
	return nil
}

// elem is the element type of a value: what the file states, else what follows from the graph, else 0.
func (a *adapter) elem(name string) int32 {
	for _, v := range a.m.Graph.Output {
		if elem, _, _ := ir.TensorType(v); v.GetName() == name && elem != 0 {
			return elem
		}
	}
	return gradient.Types(a.m)[name].Elem
}

func (a *adapter) outputNames() []string {
	var names []string
	for _, v := range a.m.Graph.Output {
		elem, dims, _ := ir.TensorType(v)
		text := a.original(v.GetName())
		if elem != 0 {
			text += " (" + strings.ToLower(ir.ElemName(elem)) + dimsText(dims) + ")"
		}
		names = append(names, text)
	}
	return names
}

// mapped is the ZipMap node that turns a tensor of probabilities into a list of dictionaries.
func (a *adapter) mapped(name string) *onnxpb.NodeProto {
	n := a.maker(name)
	for n != nil && n.GetOpType() == "Identity" && len(n.GetInput()) > 0 {
		n = a.maker(n.Input[0])
	}
	if n != nil && n.GetOpType() == "ZipMap" && len(n.GetInput()) == 1 {
		return n
	}
	return nil
}

// withoutMap goes past a ZipMap to the tensor, and keeps the names of the classes that it has.
func (a *adapter) withoutMap(name string) string {
	if n := a.mapped(name); n != nil {
		a.className(n, "classlabels_strings", "classlabels_int64s")
		name = n.Input[0]
	}
	if n := a.maker(name); n != nil && n.GetDomain() == "ai.onnx.ml" {
		a.className(n, "classlabels_strings", "classlabels_int64s")
		a.className(n, "classlabels_strings", "classlabels_ints")
	}
	return name
}

func (a *adapter) className(n *onnxpb.NodeProto, texts, numbers string) {
	if a.c.Names != nil {
		return
	}
	for _, s := range ir.Attr(n, texts).GetStrings() {
		a.c.Names = append(a.c.Names, string(s))
	}
	for _, i := range ir.AttrInts(n, numbers) {
		a.c.Names = append(a.c.Names, fmt.Sprint(i))
	}
}

// maker is the node that gives a value; nil for inputs and constants.
func (a *adapter) maker(name string) *onnxpb.NodeProto {
	i := slices.IndexFunc(a.m.Graph.Node, func(n *onnxpb.NodeProto) bool { return slices.Contains(n.GetOutput(), name) })
	if i < 0 || name == "" {
		return nil
	}
	return a.m.Graph.Node[i]
}

// known says whether the graph has a value that depends on the input.
func (a *adapter) known(name string) bool {
	return name == lower.InputX || a.maker(name) != nil
}

// settle decides from the values on the probe what the model gives: the number of classes, and logits or probabilities.
func (a *adapter) settle(truth []result) error {
	answer, logits := truth[0], truth[1]
	if a.last != nil && (answer.width != logits.width || !a.explains(a.last.OpType, logits, answer)) {
		a.logits, logits = a.answer, answer // the activation runs over something else than the classes
		a.c.From = fmt.Sprintf("output %s", a.original(a.answer))
		if a.cfg.Features == "" {
			a.features, a.c.Head = "", nil
		}
	}
	if err := logits.finite(); err != nil {
		return err
	}
	k := logits.width
	if a.cfg.Kind == Logits && logits.sumsToOne() {
		a.c.Notes = append(a.c.Notes, fmt.Sprintf("the values of %s look like probabilities, though they are said to be logits: their energy would tell nothing", a.answer))
	}
	stripped := a.logits != a.answer
	switch {
	case k == 0:
		return fmt.Errorf("value %s has no elements", a.original(a.logits))
	case a.cfg.Kind == Probabilities && !stripped && !logits.within(0, 1):
		return fmt.Errorf("the values of %s are said to be probabilities, but on the probe they are not between 0 and 1", a.answer)
	case a.cfg.Kind == Probabilities && !stripped, a.cfg.Kind != Logits && !stripped && logits.sumsToOne():
		a.form = formProbabilities
		a.c.EnergyReason = ProbabilitiesOnly
		a.c.From = fmt.Sprintf("the logarithm of the probabilities %s", a.original(a.answer))
		if k == 1 {
			a.form = formOneProbability
		}
	case k == 1:
		a.form = formOneLogit
		a.c.From += ", as the second of two classes beside a logit of 0"
	}
	a.c.Classes = max(k, 2)
	if a.c.Names != nil && len(a.c.Names) != a.c.Classes {
		a.c.Names = nil
	}
	return nil
}

// finite says where logits are no numbers. One of them may be -Inf: a class that the model has ruled out.
func (r result) finite() error {
	for i := 0; i < len(r.values); i += max(r.width, 1) {
		for _, v := range append(r.values[i:i+r.width:i+r.width], float32(score.LogSumExp(r.values[i:i+r.width]))) {
			if v != v || math.IsInf(float64(v), 1) {
				return fmt.Errorf("the logits of row %d of the probe are %v: check the preprocessing, the inputs may be out of the range that the model can take", i/r.width, v)
			}
		}
	}
	return nil
}

// within says whether all values lie between two numbers.
func (r result) within(lo, hi float32) bool {
	return !slices.ContainsFunc(r.values, func(v float32) bool { return !(v >= lo && v <= hi) })
}

// sumsToOne says whether all rows look like probabilities.
func (r result) sumsToOne() bool {
	for i := 0; i < len(r.values); i += r.width {
		sum := 0.0
		for _, v := range r.values[i : i+r.width] {
			if !(v >= 0 && v <= 1) {
				return false
			}
			sum += float64(v)
		}
		if r.width > 1 && math.Abs(sum-1) > 1e-3 {
			return false
		}
	}
	return true
}
