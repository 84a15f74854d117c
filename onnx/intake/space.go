package intake

import (
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
)

// InModelSpace is the network without its preprocessing: input x [N, Input...] in model space, output logits [N, K]; with
// score the output score too, the gradient of logsumexp(logits) with respect to x. With target there is a second input
// target [N, K], one-hot at a class y, and score is the gradient of the logit of y, as in lower.ClassScore.
func (c *Classifier) InModelSpace(score, target bool) (*onnxpb.ModelProto, error) {
	m, err := ir.Extract(c.Model, []string{c.Space}, []string{lower.OutputLogits})
	if err != nil {
		return nil, err
	}
	g, err := ir.NewGraph(m)
	if err != nil {
		return nil, err
	}
	rows := ir.Free("N")
	if c.Batch > 0 {
		rows = ir.Fixed(int64(c.Batch))
	}
	shaped := func(shape ...int) []ir.Dim { return append([]ir.Dim{rows}, ir.FixedDims(sizes(shape)...)...) }
	m.Graph.Input, m.Graph.Output = nil, nil
	if c.Space != lower.InputX {
		g.Redirect(c.Space, lower.InputX)
	}
	if g, err = ir.NewGraph(m); err != nil {
		return nil, err
	}
	if err := g.Input(lower.InputX, ir.Float32, shaped(c.Input...)...); err != nil {
		return nil, err
	}
	g.Output(lower.OutputLogits, ir.Float32, shaped(c.Classes)...)
	if !score {
		return m, ir.Check(m)
	}
	of := lower.OutputLogDensity
	if target {
		if err := g.Input(lower.InputTarget, ir.Float32, shaped(c.Classes)...); err != nil {
			return nil, err
		}
		err = lower.AddClassDensity(g)
	} else {
		of, err = lower.Energy.Add(g, lower.OutputLogits, c.Classes)
	}
	if err != nil {
		return nil, err
	}
	return m, lower.AddGradient(m, of, lower.InputX, lower.OutputScore, shaped(c.Input...)...)
}
