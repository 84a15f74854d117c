package gradient

import (
	"maps"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Rule says how one operator is differentiated. At most one of Gradient, Stops and Refuse is set; with none of them
// the operator is known only by what it does to shapes, and a gradient that has to pass it is an error.
type Rule struct {
	// Gradient adds the nodes that turn the gradients of the node's outputs into those of its inputs.
	Gradient func(c *Context) error
	// Stops marks an operator whose outputs are constant almost everywhere as functions of its inputs: shapes,
	// comparisons, rounding. A path that leads through it carries no gradient.
	Stops bool
	// Refuse is the reason why the operator cannot be differentiated.
	Refuse string
	// Infer gives the types of the node's outputs, as far as they follow from what is known of its inputs.
	// Nil: nothing but the element type, which is that of the first input.
	Infer func(s *Site) []Type
}

// Registry holds the rules by operator name; those of other domains than ONNX's own as "domain.Name".
type Registry map[string]Rule

// Standard is the registry of all operators in this package.
func Standard() Registry {
	all := Registry{}
	for _, family := range []Registry{elementwise(), linear(), shaping(), reductions(), constants()} {
		maps.Copy(all, family)
	}
	return all
}

// Operators lists the operators that can be differentiated, sorted by name.
func (r Registry) Operators() []string {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(r)), func(name string) bool { return r[name].Gradient == nil })
	slices.Sort(names)
	return names
}

func (r Registry) rule(n *onnxpb.NodeProto) (Rule, bool) {
	name := n.GetOpType()
	if !ir.IsStandard(n.GetDomain()) {
		name = n.GetDomain() + "." + name
	}
	rule, ok := r[name]
	return rule, ok
}

func elementwise() Registry {
	return Registry{
		"Add":       {Gradient: addGradient, Infer: inferBroadcast},
		"Cast":      {Gradient: castGradient, Infer: inferCast},
		"Div":       {Gradient: divGradient, Infer: inferBroadcast},
		"Exp":       {Gradient: expGradient, Infer: inferSame},
		"Identity":  {Gradient: identityGradient, Infer: inferSame},
		"LeakyRelu": {Gradient: leakyReluGradient, Infer: inferSame},
		"Log":       {Gradient: logGradient, Infer: inferSame},
		"Mul":       {Gradient: mulGradient, Infer: inferBroadcast},
		"Neg":       {Gradient: negGradient, Infer: inferSame},
		"Relu":      {Gradient: reluGradient, Infer: inferSame},
		"Sigmoid":   {Gradient: sigmoidGradient, Infer: inferSame},
		"Softplus":  {Gradient: softplusGradient, Infer: inferSame},
		"Sqrt":      {Gradient: sqrtGradient, Infer: inferSame},
		"Sub":       {Gradient: subGradient, Infer: inferBroadcast},
		"Sum":       {Gradient: sumGradient, Infer: inferBroadcast},
		"Tanh":      {Gradient: tanhGradient, Infer: inferSame},
		"Where":     {Infer: inferWhere},
	}
}

func linear() Registry {
	return Registry{
		"Conv":          {Gradient: convGradient, Infer: inferConv},
		"ConvTranspose": {Infer: inferConvTranspose},
		"Gemm":          {Gradient: gemmGradient, Infer: inferGemm},
		"MatMul":        {Gradient: matMulGradient, Infer: inferMatMul},
	}
}

func shaping() Registry {
	return Registry{
		"Concat":    {Gradient: concatGradient, Infer: inferConcat},
		"Expand":    {Gradient: expandGradient, Infer: inferExpand},
		"Flatten":   {Gradient: reshapeGradient, Infer: inferFlatten},
		"Reshape":   {Gradient: reshapeGradient, Infer: inferReshape},
		"Slice":     {Gradient: sliceGradient, Infer: inferSlice},
		"Squeeze":   {Gradient: squeezeGradient, Infer: inferSqueeze},
		"Transpose": {Gradient: transposeGradient, Infer: inferTranspose},
		"Unsqueeze": {Gradient: unsqueezeGradient, Infer: inferUnsqueeze},
	}
}

func reductions() Registry {
	return Registry{
		"LogSoftmax":      {Gradient: logSoftmaxGradient, Infer: inferSame},
		"ReduceLogSumExp": {Gradient: reduceLogSumExpGradient, Infer: inferReduce},
		"ReduceMax":       {Gradient: reduceMaxGradient, Infer: inferReduce},
		"ReduceMean":      {Gradient: reduceMeanGradient, Infer: inferReduce},
		"ReduceSum":       {Gradient: reduceSumGradient, Infer: inferReduce},
		"Softmax":         {Gradient: softmaxGradient, Infer: inferSame},
	}
}

// constants are the operators that a gradient does not pass.
func constants() Registry {
	return Registry{
		"And":             {Stops: true, Infer: inferCompare},
		"ArgMax":          {Stops: true, Infer: inferArg},
		"ArgMin":          {Stops: true, Infer: inferArg},
		"Ceil":            {Stops: true, Infer: inferSame},
		"Constant":        {Stops: true, Infer: inferConstant},
		"ConstantOfShape": {Stops: true, Infer: inferConstantOfShape},
		"Equal":           {Stops: true, Infer: inferCompare},
		"Floor":           {Stops: true, Infer: inferSame},
		"Greater":         {Stops: true, Infer: inferCompare},
		"GreaterOrEqual":  {Stops: true, Infer: inferCompare},
		"IsInf":           {Stops: true, Infer: inferCompare},
		"IsNaN":           {Stops: true, Infer: inferCompare},
		"Less":            {Stops: true, Infer: inferCompare},
		"LessOrEqual":     {Stops: true, Infer: inferCompare},
		"NonZero":         {Stops: true, Infer: inferNonZero},
		"Not":             {Stops: true, Infer: inferCompare},
		"Or":              {Stops: true, Infer: inferCompare},
		"Round":           {Stops: true, Infer: inferSame},
		"Shape":           {Stops: true, Infer: inferShape},
		"Sign":            {Stops: true, Infer: inferSame},
		"Size":            {Stops: true, Infer: inferSize},
		"Xor":             {Stops: true, Infer: inferCompare},
	}
}
