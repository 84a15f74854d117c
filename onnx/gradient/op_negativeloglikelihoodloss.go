package gradient

import (
	"fmt"

	"github.com/jempipe/jempipe/onnx/ir"
)

// negativeLogLikelihoodLossGradient: with x of shape (batch, classes, places...) and a target class t at each place, y is
// -w[t] x[t], w being the weights of the classes, as it is, summed, or divided by the sum of the w[t]. So x gets the
// factor of that at its targets, and 0 elsewhere. Ignored targets have the weight 0.
func negativeLogLikelihoodLossGradient(c *Context) error {
	l, err := c.classLoss()
	if err != nil {
		return err
	}
	if c.Needs(0) {
		c.SetGrad(0, l.atTargets())
	}
	if c.Needs(2) {
		c.SetGrad(2, l.ofWeights(c.In(0)))
	}
	return nil
}

// classLoss is the part of a loss that picks the value of one class, the target, at each place. Its values have size 1
// at the axis of the classes.
type classLoss struct {
	c       *Context
	targets string // 0 where ignored
	kept    string // 1 where not ignored, else 0; "" where nothing is
	factor  string // what the loss's gradient is of the values picked
	share   string // the gradient of each term of the loss
	mean    bool
}

func (c *Context) classLoss() (*classLoss, error) {
	l := &classLoss{c: c}
	x := c.In(0)
	l.targets = c.Unsqueeze(c.OpWith("Cast", []string{c.In(1)}, ir.Int("to", int64(ir.Int64))), []int64{1})
	if ir.Attr(c.Node, "ignore_index") != nil {
		out := c.Op("Equal", l.targets, c.List(ir.AttrInt(c.Node, "ignore_index", 0)))
		l.targets = c.Op("Where", out, c.List(0), l.targets) // those ignored may be no class
		l.kept = c.castLike(c.Op("Not", out), x)
	}
	weight := l.kept
	if c.In(2) != "" {
		weight = c.Op("Gather", c.In(2), l.targets)
		if l.kept != "" {
			weight = c.Op("Mul", weight, l.kept)
		}
	}
	l.share = c.Grad(0)
	switch reduction := ir.AttrString(c.Node, "reduction", "mean"); reduction {
	case "none":
		l.share = c.Unsqueeze(l.share, []int64{1})
	case "sum":
	case "mean":
		l.mean = true
		var total string
		if weight == "" {
			total = c.castLike(c.Op("Size", l.targets), x)
		} else {
			total = c.OpWith("ReduceSum", []string{weight}, ir.Int("keepdims", 0))
		}
		l.share = c.Op("Div", l.share, total)
	default:
		return nil, fmt.Errorf(`its reduction is %q, supported are "none", "sum" and "mean"`, reduction)
	}
	l.factor = c.Op("Neg", l.share)
	if weight != "" {
		l.factor = c.Op("Mul", weight, l.factor)
	} else {
		l.factor = c.Op("Expand", l.factor, c.ShapeOf(l.targets))
	}
	return l, nil
}

// atTargets has the shape of x, and the factor at the targets.
func (l *classLoss) atTargets() string {
	return l.c.scatterAdd(l.c.fill(l.c.In(0), 0), l.targets, l.factor, 1, true)
}

// ofWeights is the gradient of the weights: the weight of a class multiplies the negative values picked of it, and
// counts in the divisor of the mean.
func (l *classLoss) ofWeights(values string) string {
	c := l.c
	picked := c.Op("Neg", c.OpWith("GatherElements", []string{values, l.targets}, ir.Int("axis", 1)))
	if l.mean {
		picked = c.Op("Sub", picked, c.Out(0))
	}
	each := c.Op("Mul", picked, l.share)
	if l.kept != "" {
		each = c.Op("Mul", each, l.kept)
	}
	flat := func(v string) string { return c.Op("Reshape", v, c.List(-1)) }
	return c.scatterAdd(c.fill(c.In(2), 0), flat(l.targets), flat(each), 0, false)
}

func inferNegativeLogLikelihoodLoss(s *Site) []Type {
	loss := Type{Elem: s.Type(0).Elem, Ranked: true}
	if ir.AttrString(s.Node, "reduction", "mean") == "none" {
		loss.Shape, loss.Ranked = s.Type(1).Shape, s.Type(1).Ranked
	}
	return []Type{loss}
}
