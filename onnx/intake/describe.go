package intake

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/gradient"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Description is what can be told of a classifier without running it.
type Description struct {
	Input     string
	Batch     int    // built in; 0: free
	From      string // what is taken for the logits; empty where that cannot be told, and then Unclear says why
	Unclear   error
	Features  string  // value; empty where there are none
	Obstacles []error // what keeps the logits from being differentiated with respect to the input, a node each
}

// classical are the operators of ai.onnx.ml at whose end classifiers usually have probabilities.
var classical = []string{"LinearClassifier", "Normalizer", "SVMClassifier", "TreeEnsembleClassifier", "TreeEnsemble"}

// Describe looks for input, logits and features of a model that Read has given, and for what stops gradients.
func Describe(m *onnxpb.ModelProto) Description {
	g, err := ir.NewGraph(m)
	if err != nil {
		return Description{Unclear: err}
	}
	a := &adapter{m: m, g: g, c: &Classifier{}, names: map[string]string{}}
	var d Description
	in, err := a.pickInput()
	if err != nil {
		d.Unclear = err
		return d
	}
	d.Input = in.GetName()
	if _, dims, ranked := ir.TensorType(in); ranked && len(dims) > 0 && dims[0].Set {
		d.Batch = int(dims[0].Size)
	}
	for _, step := range []func() error{a.findOutput, a.findFeatures} {
		if d.Unclear = step(); d.Unclear != nil {
			return d
		}
	}
	d.From, d.Features = a.c.From, a.features
	if n := a.maker(a.logits); a.last == nil && n != nil && slices.Contains(classical, n.GetOpType()) {
		d.From += ", which may well hold probabilities: then there is neither energy nor gradient"
	}
	d.Obstacles = gradient.Obstacles(m, a.logits, d.Input)
	return d
}
