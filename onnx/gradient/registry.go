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
	// Since is the version of the operator set that introduced the operator, where that is later than the first that
	// can be differentiated.
	Since int64
	// Until is the last version that has the operator, where a later one dropped it.
	Until int64
}

// Registry holds the rules by operator name; those of other domains than ONNX's own as "domain.Name".
type Registry map[string]Rule

// Standard is the registry of all operators in this package.
func Standard() Registry {
	all := Registry{}
	for _, family := range []Registry{refusals(), elementwise(), linear(), pooling(), normalisations(), reductions(), shaping(), classical(), constants()} {
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
