package gradient

import (
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// composed differentiates an operator that is short for several others. They are added, which computes the node's outputs
// anew, and differentiated. forward adds them and gives what stands for each of the node's outputs; "" where nothing
// does.
func (c *Context) composed(forward func() []string) error {
	w := c.walk
	from := len(c.g.Model.Graph.Node)
	nodes, computed := w.nodes, w.computed
	// The walk may have passed the nodes of the graph that compute the same.
	w.computed = map[string]string{}
	defer func() { w.nodes, w.computed = nodes, computed }()
	outs := forward()
	if c.err != nil {
		return c.err
	}
	w.nodes = slices.Clone(c.g.Model.Graph.Node[from:])
	w.depends, _ = w.forward(w.depends)
	for i, out := range outs {
		if out != "" && c.HasGrad(i) {
			w.add(out, c.grads[i])
		}
	}
	sums := map[string]cotangent{}
	for i := len(w.nodes) - 1; i >= 0; i-- {
		if err := w.step(w.nodes[i], sums); err != nil {
			return fmt.Errorf("%s: %w", ir.Describe(w.nodes[i]), err)
		}
	}
	return nil
}
