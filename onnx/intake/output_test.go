package intake

import (
	"math"
	"slices"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// logOf gives the logarithms of probabilities.
func logOf(p []float32) []float32 {
	out := make([]float32, len(p))
	for i, v := range p {
		out[i] = float32(math.Log(max(float64(v), 0x1p-126)))
	}
	return out
}

// beside puts a logit of 0 in front of one.
func beside(z []float32) []float32 { return []float32{0, z[0]} }

// behind is a network on 8 values with some classes and something behind its logits z, which gives the output answer.
func behind(classes int64, more func(b *net), dims ...int64) func(b *net) {
	return func(b *net) {
		b.mlp(b.input("values", ir.Float32, 0, 8), 8, classes)
		more(b)
		if len(dims) > 0 {
			b.output("answer", dims...)
		}
	}
}

// one adds a node with the output answer.
func one(op, input string, attrs ...*onnxpb.AttributeProto) func(b *net) {
	return func(b *net) { b.op("answer", op, []string{input}, attrs...) }
}

func ml(n *onnxpb.NodeProto) { n.Domain = "ai.onnx.ml" }

// lastNode is the node that was added last.
func (b *net) lastNode() *onnxpb.NodeProto { return b.m.Graph.Node[len(b.m.Graph.Node)-1] }

func strs(name string, v ...string) *onnxpb.AttributeProto {
	a := &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_STRINGS}
	for _, s := range v {
		a.Strings = append(a.Strings, []byte(s))
	}
	return a
}

// zipped is a model with a ZipMap behind softmax probabilities, as scikit-learn models have it.
func zipped(labels *onnxpb.AttributeProto) func(b *net) {
	return behind(3, func(b *net) {
		b.op("p", "Softmax", []string{"z"}, ir.Int("axis", 1))
		b.op("answer", "ZipMap", []string{"p"}, labels)
		ml(b.lastNode())
		b.m.OpsetImport = append(b.m.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: "ai.onnx.ml", Version: 1})
		b.op("label", "ArgMax", []string{"z"}, ir.Int("axis", 1), ir.Int("keepdims", 0))
		b.g.Output("label", ir.Int64, ir.Free("N"))
		b.m.Graph.Output = append(b.m.Graph.Output, &onnxpb.ValueInfoProto{Name: "answer", Type: &onnxpb.TypeProto{
			Value: &onnxpb.TypeProto_SequenceType{SequenceType: &onnxpb.TypeProto_Sequence{ElemType: &onnxpb.TypeProto{
				Value: &onnxpb.TypeProto_MapType{MapType: &onnxpb.TypeProto_Map{KeyType: ir.Int64, ValueType: &onnxpb.TypeProto{
					Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: ir.Float32}}}}}}}}}})
	})
}

// inFunction is a model whose end is a function of its own.
func inFunction(b *net) {
	b.mlp(b.input("values", ir.Float32, 0, 8), 8, 3)
	b.op("answer", "Probabilities", []string{"z"})
	b.lastNode().Domain = "theirs"
	b.output("answer", 0, 3)
	b.m.OpsetImport = append(b.m.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: "theirs", Version: 1})
	b.m.Functions = []*onnxpb.FunctionProto{{
		Domain: "theirs", Name: "Probabilities", Input: []string{"in"}, Output: []string{"out"},
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}},
		Node: []*onnxpb.NodeProto{
			{OpType: "Softmax", Input: []string{"in"}, Output: []string{"p"}, Attribute: []*onnxpb.AttributeProto{ir.Int("axis", -1)}},
			{OpType: "Identity", Input: []string{"p"}, Output: []string{"out"}},
		}}}
}

// What plays the part of the logits, and what is recomputed from probabilities.
func TestOutputs(t *testing.T) {
	soft, prob := "the input of the final Softmax", "the logarithm of the probabilities answer"
	dense := theirs{features: 6, hidden: "hidden", head: true, classes: 3}
	only := theirs{classes: 3, energy: ProbabilitiesOnly, noGradient: ProbabilitiesOnly, value: "answer", logits: logOf, from: prob}
	for _, c := range []struct {
		name string
		base theirs
		set  func(c *theirs)
	}{
		{"logits", dense, func(c *theirs) { c.build, c.from = behind(3, one("Identity", "z"), 0, 3), "output answer" }},
		{"softmax over the last axis", dense, func(c *theirs) { c.build, c.from = behind(3, one("Softmax", "z", ir.Int("axis", -1)), 0, 3), soft }},
		{"softmax without an axis", dense, func(c *theirs) { c.build, c.from = behind(3, one("Softmax", "z"), 0, 3), soft }},
		{"softmax of operator set 7", dense, func(c *theirs) {
			c.opset, c.build, c.from = 7, behind(3, one("Softmax", "z", ir.Int("axis", 1)), 0, 3), soft
		}},
		{"log-softmax", dense, func(c *theirs) {
			c.build, c.from = behind(3, one("LogSoftmax", "z", ir.Int("axis", 1)), 0, 3), "the input of the final LogSoftmax"
		}},
		{"sigmoid of one", dense, func(c *theirs) {
			c.build, c.from, c.classes, c.logits = behind(1, one("Sigmoid", "z"), 0, 1), "as the second of two classes beside a logit of 0", 2, beside
		}},
		{"sigmoids of several", dense, func(c *theirs) {
			c.build, c.from = behind(3, one("Sigmoid", "z"), 0, 3), "the input of the final Sigmoid"
		}},
		{"sigmoid of one, without an axis for it", dense, func(c *theirs) {
			c.opset, c.classes, c.logits = 12, 2, beside
			c.build = behind(1, func(b *net) { one("Squeeze", b.then("Sigmoid", "z"), ir.Ints("axes", 1))(b) }, 0)
		}},
		{"one logit", dense, func(c *theirs) {
			c.build, c.classes, c.logits = behind(1, one("Identity", "z"), 0, 1), 2, beside
		}},
		{"one logit, without an axis for it", dense, func(c *theirs) {
			c.opset, c.build, c.classes, c.logits = 12, behind(1, one("Squeeze", "z", ir.Ints("axes", 1)), 0), 2, beside
		}},
		{"softmax, then reshaped", dense, func(c *theirs) {
			c.from = soft
			c.build = behind(3, func(b *net) {
				b.op("answer", "Reshape", []string{b.then("Softmax", "z"), b.ints("to", -1, 3)})
			}, 0, 3)
		}},
		{"softmax, then cast and copied", dense, func(c *theirs) {
			c.from = soft
			c.build = behind(3, func(b *net) {
				b.op("answer", "Cast", []string{b.then("Identity", b.then("Softmax", "z"))}, ir.Int("to", int64(ir.Float64)))
				b.elem = ir.Float64
			}, 0, 3)
		}},
		{"softmax of a map", dense, func(c *theirs) {
			c.opset, c.from = 12, soft
			c.build = behind(3, func(b *net) {
				p := b.then("Softmax", b.then("Unsqueeze", "z", ir.Ints("axes", 2, 3)), ir.Int("axis", 1))
				b.op("answer", "Squeeze", []string{p}, ir.Ints("axes", 2, 3))
			}, 0, 3)
		}},
		{"logits of a map", dense, func(c *theirs) {
			c.opset, c.build = 12, behind(3, one("Unsqueeze", "z", ir.Ints("axes", 2, 3)), 0, 3, 1, 1)
		}},
		{"softmax in a function", dense, func(c *theirs) { c.build, c.from = inFunction, soft }},
		{"logits and their softmax", dense, func(c *theirs) {
			c.from = "output z"
			c.build = behind(3, func(b *net) {
				b.op("answer", "Softmax", []string{"z"})
				b.output("z", 0, 3)
			}, 0, 3)
		}},
		{"an output called logits beside others", dense, func(c *theirs) {
			c.from = "output class_logits"
			c.build = behind(3, func(b *net) {
				b.op("class_logits", "Identity", []string{"z"})
				b.output("class_logits", 0, 3)
				b.op("answer", "Abs", []string{"hidden"})
			}, 0, 6)
		}},
		{"named in the config", dense, func(c *theirs) {
			c.cfg.Output, c.from = "z", "output z"
			c.build = behind(3, func(b *net) {
				b.output("z", 0, 3)
				b.op("answer", "Abs", []string{"hidden"})
			}, 0, 6)
		}},
		{"an inner value named in the config", dense, func(c *theirs) {
			c.cfg.Output = "z"
			c.build = behind(3, one("ArgMax", "z", ir.Int("axis", 1), ir.Int("keepdims", 0)), 0)
			c.change = func(m *onnxpb.ModelProto) { m.Graph.Output[0].Type.GetTensorType().ElemType = ir.Int64 }
		}},
		{"softmax kept as logits", only, func(c *theirs) {
			c.build, c.cfg.Kind, c.energy, c.noGradient, c.logits, c.from = behind(3, one("Softmax", "z"), 0, 3), Logits, "", "", nil, "output answer"
			c.note = "look like probabilities"
		}},
		{"probabilities by the config", only, func(c *theirs) {
			c.build, c.cfg.Kind = behind(3, func(b *net) { one("Abs", b.then("Tanh", "z"))(b) }, 0, 3), Probabilities
		}},
		{"probabilities of no known operator", only, func(c *theirs) {
			c.build = behind(3, func(b *net) {
				e := b.op("e", "Exp", []string{"z"})
				b.op("answer", "Div", []string{e, b.op("sum", "ReduceSum", []string{e, b.ints("axis", 1)})})
			}, 0, 3)
		}},
		{"probabilities with zeros", only, func(c *theirs) {
			c.build = behind(3, func(b *net) {
				b.op("answer", "Hardmax", []string{"z"}, ir.Int("axis", 1))
			}, 0, 3)
		}},
		{"one probability", only, func(c *theirs) {
			c.classes, c.logits = 2, func(p []float32) []float32 { return logOf([]float32{1 - p[0], p[0]}) }
			c.build = behind(1, one("HardSigmoid", "z"), 0, 1)
		}},
		{"a final softmax that is something else", only, func(c *theirs) {
			c.energy, c.noGradient, c.logits, c.from, c.classes = "", "", nil, "output answer", 4 // and no features
			c.build = func(b *net) {                                                              // over the pixels of two maps
				b.mlp(b.input("values", ir.Float32, 0, 8), 8, 4)
				maps := b.op("maps", "Reshape", []string{"z", b.ints("two", 0, 2, 2)})
				b.op("answer", "Flatten", []string{b.then("Softmax", maps, ir.Int("axis", 2))})
				b.output("answer", 0, 4)
			}
		}},
		{"ZipMap with texts", dense, func(c *theirs) {
			c.build, c.from, c.names = zipped(strs("classlabels_strings", "cat", "dog", "eel")), soft, []string{"cat", "dog", "eel"}
		}},
		{"ZipMap with numbers", dense, func(c *theirs) {
			c.build, c.from, c.names = zipped(ir.Ints("classlabels_int64s", 3, 5, 8)), soft, []string{"3", "5", "8"}
		}},
		{"rank not stated", dense, func(c *theirs) {
			c.build = behind(3, one("Identity", "z"), 0, 3)
			c.change = func(m *onnxpb.ModelProto) { m.Graph.Output[0].Type.GetTensorType().Shape = nil }
		}},
		{"type not stated", dense, func(c *theirs) {
			c.build = behind(3, one("Identity", "z"), 0, 3)
			c.change = func(m *onnxpb.ModelProto) { m.Graph.Output[0].Type = nil }
		}},
		{"many classes", dense, func(c *theirs) { c.build, c.classes = behind(2000, one("Identity", "z"), 0, 2000), 2000 }},
		{"the value does not exist", dense, func(c *theirs) {
			c.build, c.cfg.Output, c.err = behind(3, one("Identity", "z"), 0, 3), "y", `the model has no value "y"; its outputs are answer (float[?, 3])`
		}},
		{"the value is a label", dense, func(c *theirs) {
			c.cfg.Output, c.err = "answer", "value answer is INT64, logits and probabilities are floating-point numbers; the outputs are answer (int64[?])"
			c.build = behind(3, one("ArgMax", "z", ir.Int("axis", 1), ir.Int("keepdims", 0)), 0)
			c.change = func(m *onnxpb.ModelProto) { m.Graph.Output[0].Type.GetTensorType().ElemType = ir.Int64 }
		}},
		{"several that could be", dense, func(c *theirs) {
			c.err = "which output holds the logits cannot be told: the model has hidden (float[?, 6]), answer (float[?, 3])"
			c.build = behind(3, func(b *net) {
				b.output("hidden", 0, 6)
				one("Identity", "z")(b)
			}, 0, 3)
		}},
		{"none of floating point", dense, func(c *theirs) {
			c.err = "which output holds the logits cannot be told: the model has answer (int64[?])"
			c.build = behind(3, one("ArgMax", "z", ir.Int("axis", 1), ir.Int("keepdims", 0)), 0)
			c.change = func(m *onnxpb.ModelProto) { m.Graph.Output[0].Type.GetTensorType().ElemType = ir.Int64 }
		}},
		{"a number for the whole batch", dense, func(c *theirs) {
			c.err = "it has no row for each"
			c.build = behind(3, one("ReduceMean", "z", ir.Int("keepdims", 0)), 0)
			c.change = func(m *onnxpb.ModelProto) {
				m.Graph.Input[0] = ir.ValueInfo("values", ir.Float32, ir.FixedDims(5, 8)...)
			}
		}},
		{"not a number", dense, func(c *theirs) {
			c.err = "the logits of row 0 of the probe are NaN"
			c.build = behind(3, func(b *net) { one("Log", b.op("low", "Sub", []string{"z", b.constant("far", []float64{100})}))(b) }, 0, 3)
		}},
		{"infinite", dense, func(c *theirs) {
			c.err = "the logits of row 0 of the probe are +Inf"
			c.build = behind(3, func(b *net) { one("Exp", b.op("high", "Add", []string{"z", b.constant("far", []float64{100})}))(b) }, 0, 3)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.base.shape = []int{8}
			c.set(&c.base)
			c.base.run(t)
		})
	}
}

// The names that a finished model gives to its values may stand for something else in the file.
func TestReservedNamesInTheFile(t *testing.T) {
	for _, c := range []struct {
		name        string
		input, hide string
		z           string
		named       bool
	}{
		{"the input is called logits", "logits", "energy", "score", false},
		{"the input is called x, the logits features", "x", "x_model", "features", true},
		{"the input is called energy, the logits x", "energy", "logits", "x", true},
		{"the input is called score, the logits energy", "score", "logsumexp", "energy", true},
		{"all as it should be", "x", "features", "logits", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			each := theirs{classes: 3, features: 6, hidden: c.hide, head: true, value: c.z, shape: []int{8}, from: "output " + c.z}
			each.cfg.Preprocess = half
			each.file = func(raw []float32) []float32 {
				out := slices.Clone(raw)
				for i := range out {
					out[i] = (raw[i]/255 - 0.5) / 0.5
				}
				return out
			}
			each.x = bytes(probeRows, 8)
			if c.named {
				each.cfg.Output, each.cfg.Input, each.cfg.Features = c.z, c.input, ""
			}
			each.build = func(b *net) {
				b.op(c.hide, "Tanh", []string{b.dense("target", b.input(c.input, ir.Float32, 0, 8), 8, 6)})
				b.dense(c.z, c.hide, 6, 3)
				b.output(c.z, 0, 3)
			}
			each.run(t)
		})
	}
}
