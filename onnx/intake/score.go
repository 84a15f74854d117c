package intake

import (
	"fmt"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/onnx/selftest"
)

// AddScore adds the output score [N, ...] to the model: the gradient of a readout of each row's logits, with respect to
// the sample in model space, or to the raw sample.
func (c *Classifier) AddScore(r lower.Readout, raw bool) error {
	if c.EnergyReason != "" {
		return fmt.Errorf("no gradient is built: %s, which holds no density", c.EnergyReason)
	}
	g, err := ir.NewGraph(c.Model)
	if err != nil {
		return err
	}
	of, err := r.Add(g, lower.OutputLogits, c.Classes)
	if err != nil {
		return err
	}
	space, shape := c.space(raw)
	return lower.AddGradient(c.Model, of, space, lower.OutputScore, c.rows(shape...)...)
}

// rows is a shape behind the batch axis, which is free, or of the only size that the model takes.
func (c *Classifier) rows(shape ...int) []ir.Dim {
	n := ir.Free(rowsName)
	if c.Batch > 0 {
		n = ir.Fixed(int64(c.Batch))
	}
	return append([]ir.Dim{n}, ir.FixedDims(sizes(shape)...)...)
}

// space is the value that the score belongs to, and its shape in a sample.
func (c *Classifier) space(raw bool) (name string, shape []int) {
	if raw {
		return lower.InputX, c.Preprocess.SampleShape
	}
	return c.Space, c.Input
}

// TestGraph is the model with its score, ready for the self-test.
func (c *Classifier) TestGraph(s *ort.Session, r lower.Readout, raw bool) (selftest.Graph, error) {
	g := selftest.Graph{Session: s, Name: "score", Input: lower.InputX, Shape: c.Preprocess.SampleShape, Logits: lower.OutputLogits,
		Score: lower.OutputScore, Batch: c.Batch, Readout: r.Of, Half: halfPrecision(c.Model)}
	if raw {
		return g, nil
	}
	var err error
	g.From, g.Scale, _, err = c.Preprocess.Map(c.Input)
	return g, err
}
