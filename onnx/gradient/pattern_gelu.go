package gradient

import (
	"math"
	"slices"
)

// geluOf handles in one go the last product of y = x (1 + erf(x / sqrt 2)) / 2 as exporters write it without the operator
// Gelu, with its two products in any order. x gets its gradient straight from y, by a formula of x alone: nothing else
// then reads the values between, so that ONNX Runtime fuses the five forward operators into one. Their own gradients must
// not be wanted.
func (c *Context) geluOf() bool {
	x, ok := c.geluInput()
	if !ok || !c.walk.depends[x] || !sameShape(c.types[x], c.TypeOf(c.Out(0))) {
		return false
	}
	c.walk.add(x, cotangent{name: c.timesGrad(c.geluSlope(x))})
	return true
}

// geluInput finds x: of the three factors one is 1/2, one is 1 + erf(u), and u is the third over sqrt 2.
func (c *Context) geluInput() (string, bool) {
	for i := range 2 {
		factors := append(c.operands("Mul", c.In(i)), c.In(1-i))
		rest, ok := c.without(factors, 0.5)
		if !ok || len(rest) != 2 {
			continue
		}
		for j, x := range rest {
			sum, ok := c.without(c.operands("Add", rest[1-j]), 1)
			if !ok || len(sum) != 1 {
				continue
			}
			if u := c.operands("Erf", sum[0]); len(u) == 1 && c.isScaled(u[0], x) {
				return x, true
			}
		}
	}
	return "", false
}

// isScaled says whether u is x / sqrt 2.
func (c *Context) isScaled(u, x string) bool {
	if rest, ok := c.without(c.operands("Mul", u), 1/math.Sqrt2); ok {
		return slices.Equal(rest, []string{x})
	}
	in := c.operands("Div", u)
	return len(in) == 2 && in[0] == x && c.isNumber(in[1], math.Sqrt2)
}

// operands are the inputs of the node that makes a value, where it is of a given kind and the value's own gradient is
// not wanted.
func (c *Context) operands(op, name string) []string {
	n := c.walk.makers[name]
	if n == nil || n.OpType != op || n.Domain != "" || c.walk.wrt[name] {
		return nil
	}
	return slices.Clone(n.Input)
}

// without takes a constant out of a list of values.
func (c *Context) without(names []string, v float64) ([]string, bool) {
	i := slices.IndexFunc(names, func(name string) bool { return c.isNumber(name, v) })
	if i < 0 {
		return names, false
	}
	return slices.Delete(slices.Clone(names), i, i+1), true
}

// isNumber allows for constants that were rounded or written with few digits, not for those whose gradient is wanted.
func (c *Context) isNumber(name string, v float64) bool {
	got, ok := c.number(name)
	return ok && !c.walk.wrt[name] && math.Abs(got-v) <= 1e-4*math.Abs(v)
}
