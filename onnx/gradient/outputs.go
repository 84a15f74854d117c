package gradient

import "github.com/jempipe/jempipe/onnx/ir/onnxpb"

// outputs adds a node with several outputs and gives their names.
func (c *Context) outputs(op string, inputs []string, n int, attrs ...*onnxpb.AttributeProto) []string {
	first := c.g.Add(op, inputs, attrs...)
	nodes := c.g.Model.Graph.Node
	node := nodes[len(nodes)-1]
	for range n - 1 {
		node.Output = append(node.Output, c.g.Unique(first))
	}
	c.node(node, nil)
	return node.Output
}
