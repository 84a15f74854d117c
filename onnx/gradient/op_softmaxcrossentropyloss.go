package gradient

import "github.com/jempipe/jempipe/onnx/ir"

// softmaxCrossEntropyLossGradient: y is the NegativeLogLikelihoodLoss of log softmax(x), which is the second output. Of
// the gradient d of that, from both outputs, x gets d - softmax(x) sum(d), the sum over the classes.
func softmaxCrossEntropyLossGradient(c *Context) error {
	var d, total string // the sum over the classes
	if c.HasGrad(0) {
		l, err := c.classLoss()
		if err != nil {
			return err
		}
		if c.Needs(0) {
			d, total = l.atTargets(), l.factor
		}
		if c.Needs(2) {
			c.SetGrad(2, l.ofWeights(c.logSoftmax()))
		}
	}
	if !c.Needs(0) {
		return nil
	}
	if c.HasGrad(1) {
		sum := c.ReduceSum(c.Grad(1), []int64{1}, true)
		if d == "" {
			d, total = c.Grad(1), sum
		} else {
			d, total = c.Op("Add", d, c.Grad(1)), c.Op("Add", total, sum)
		}
	}
	c.SetGrad(0, c.Op("Sub", d, c.Op("Mul", c.classProbabilities(), total)))
	return nil
}

// logSoftmax is the logarithm of the probabilities of the classes, which the node may give.
func (c *Context) logSoftmax() string {
	if c.Out(1) != "" {
		return c.Out(1)
	}
	c.wantOpset(13, "a softmax over the classes")
	return c.OpWith("LogSoftmax", []string{c.In(0)}, ir.Int("axis", 1))
}

func (c *Context) classProbabilities() string {
	if c.Out(1) != "" {
		return c.Op("Exp", c.Out(1))
	}
	c.wantOpset(13, "a softmax over the classes")
	return c.OpWith("Softmax", []string{c.In(0)}, ir.Int("axis", 1))
}

func inferSoftmaxCrossEntropyLoss(s *Site) []Type {
	return append(inferNegativeLogLikelihoodLoss(s), s.Type(0))
}
