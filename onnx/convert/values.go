package convert

import (
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// raiser holds what is known of the values of a model while it is raised.
type raiser struct {
	g       *ir.Graph
	version int64 // the version that adapters lead to

	info  map[string]value
	maker map[string]*onnxpb.NodeProto
	uses  map[string]int // how often a value is read, as a graph output too
}

// value is what a model states, or what follows, about the type of a value.
type value struct {
	elem   int32 // 0: not known
	shape  []ir.Dim
	ranked bool
}

func newRaiser(m *onnxpb.ModelProto) (*raiser, error) {
	g, err := ir.NewGraph(m)
	if err != nil {
		return nil, err
	}
	c := &raiser{g: g, info: map[string]value{}, maker: map[string]*onnxpb.NodeProto{}, uses: map[string]int{}}
	c.collect(m.Graph)
	return c, nil
}

func (c *raiser) collect(pb *onnxpb.GraphProto) {
	for _, t := range pb.GetInitializer() {
		c.note(t.GetName(), value{t.GetDataType(), ir.FixedDims(t.GetDims()...), true})
	}
	for _, list := range [][]*onnxpb.ValueInfoProto{pb.GetInput(), pb.GetValueInfo(), pb.GetOutput()} {
		for _, v := range list {
			elem, shape, ranked := ir.TensorType(v)
			c.note(v.GetName(), value{elem, shape, ranked})
		}
	}
	for _, v := range pb.GetOutput() {
		c.uses[v.GetName()]++
	}
	for _, n := range pb.GetNode() {
		for _, in := range n.GetInput() {
			c.uses[in]++
		}
		for _, o := range n.GetOutput() {
			c.maker[o] = n
		}
		for _, sub := range ir.Subgraphs(n) {
			c.collect(sub)
		}
	}
}

// note adds to what is known of a value. Values of two subgraphs may share a name: then only what fits both counts.
func (c *raiser) note(name string, v value) {
	was, ok := c.info[name]
	switch {
	case !ok || was.elem == 0 && !was.ranked:
		c.info[name] = v
	case v.elem != 0 && was.elem != 0 && v.elem != was.elem, v.ranked && was.ranked && len(v.shape) != len(was.shape):
		c.info[name] = value{}
	default:
		if was.elem == 0 {
			was.elem = v.elem
		}
		if !was.ranked {
			was.shape, was.ranked = v.shape, v.ranked
		}
		c.info[name] = was
	}
}

// elem gives the element type of a value, from what the model states or from the nodes before it; 0 where it is not known.
func (c *raiser) elem(name string) int32 {
	seen := map[string]bool{}
	for name != "" && !seen[name] {
		if e := c.info[name].elem; e != 0 {
			return e
		}
		seen[name] = true
		n := c.maker[name]
		if n == nil || !ir.IsStandard(n.Domain) {
			return 0
		}
		next, elem := source(n, name)
		if elem != 0 {
			return elem
		}
		name = next
	}
	return 0
}

// source says what the element type of an output is, or which input of the node shares it.
func source(n *onnxpb.NodeProto, output string) (input string, elem int32) {
	at := func(i int) (string, int32) {
		if i < len(n.Input) {
			return n.Input[i], 0
		}
		return "", 0
	}
	if n.Output[0] != output {
		if n.OpType == "Split" {
			return at(0)
		}
		return "", 0
	}
	switch n.OpType {
	case "Cast":
		return "", int32(ir.AttrInt(n, "to", 0))
	case "Constant":
		return "", constantElem(n)
	case "ConstantOfShape":
		if t := ir.Attr(n, "value").GetT(); t != nil {
			return "", t.GetDataType()
		}
		return "", ir.Float32
	case "Shape", "Size", "ArgMax", "ArgMin", "NonZero", "NonMaxSuppression":
		return "", ir.Int64
	case "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not", "And", "Or", "Xor", "IsNaN", "IsInf":
		return "", ir.Bool
	case "Where", "CastLike", "DequantizeLinear":
		return at(1)
	case "OneHot":
		return at(2)
	case "If", "Loop", "Scan", "SequenceAt", "OptionalGetElement", "EyeLike", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike",
		"Multinomial", "QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "Bernoulli", "Unique",
		"SequenceLength", "SplitToSequence", "SequenceConstruct", "TfIdfVectorizer", "StringNormalizer", "DFT", "STFT":
		return "", 0
	}
	return at(0)
}

func constantElem(n *onnxpb.NodeProto) int32 {
	switch {
	case ir.Attr(n, "value") != nil:
		return ir.Attr(n, "value").GetT().GetDataType()
	case ir.Attr(n, "value_float") != nil, ir.Attr(n, "value_floats") != nil:
		return ir.Float32
	case ir.Attr(n, "value_int") != nil, ir.Attr(n, "value_ints") != nil:
		return ir.Int64
	}
	return 0
}

// shape gives the dimensions of a value; ranked is false where not even their number is known. Operators that keep the
// shape of their first input are looked through.
func (c *raiser) shape(name string) (shape []ir.Dim, ranked bool) {
	seen := map[string]bool{}
	for name != "" && !seen[name] {
		if v := c.info[name]; v.ranked {
			return v.shape, true
		}
		seen[name] = true
		n := c.maker[name]
		if n == nil || !ir.IsStandard(n.Domain) || n.Output[0] != name || len(n.Input) == 0 {
			return nil, false
		}
		switch n.OpType {
		case "Gemm", "Flatten":
			return make([]ir.Dim, 2), true
		case "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool":
			d, ok := c.shape(n.Input[0])
			return make([]ir.Dim, len(d)), ok
		case "Relu", "Sigmoid", "Tanh", "Identity", "Cast", "Dropout", "Neg", "Exp", "Log", "Sqrt", "Abs", "LeakyRelu", "Elu", "Selu", "Clip",
			"Softplus", "Softsign", "Erf", "Softmax", "LogSoftmax", "Hardmax", "BatchNormalization", "InstanceNormalization", "LRN",
			"HardSigmoid", "ThresholdedRelu", "Celu", "PRelu":
			name = n.Input[0]
		default:
			return nil, false
		}
	}
	return nil, false
}

// floats gives the values of a constant; false where it is computed, or is an input with a default.
func (c *raiser) floats(name string) ([]float64, bool) {
	t := c.tensor(name)
	if t == nil {
		return nil, false
	}
	v, err := ir.Floats(t)
	return v, err == nil
}

func (c *raiser) tensor(name string) *onnxpb.TensorProto {
	if n := c.maker[name]; n != nil && n.OpType == "Constant" && ir.IsStandard(n.Domain) {
		return ir.Attr(n, "value").GetT()
	}
	for _, v := range c.g.Model.Graph.Input {
		if v.GetName() == name {
			return nil
		}
	}
	for _, t := range c.g.Model.Graph.Initializer {
		if t.GetName() == name {
			return t
		}
	}
	return nil
}
