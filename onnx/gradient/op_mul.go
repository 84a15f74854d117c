package gradient

import "slices"

// mulGradient: y = a b, so a gets dy b and b gets dy a; for y = a a, a gets 2 a dy.
func mulGradient(c *Context) error {
	if c.siluOf(0) || c.siluOf(1) || c.geluOf() {
		return nil
	}
	if c.In(0) == c.In(1) {
		c.multiplied(c.Scale(c.In(0), 2))
		return nil
	}
	for i := range 2 {
		if !c.Needs(i) {
			continue
		}
		other := c.In(1 - i)
		if v, ok := c.Uniform(0); ok && sameShape(c.TypeOf(other), c.TypeOf(c.Out(0))) {
			c.SetBroadcast(i, c.Scale(other, v))
			continue
		}
		c.SetBroadcast(i, c.Op("Mul", c.Grad(0), other))
	}
	return nil
}

// siluOf handles y = x sigmoid(x) in one go where input i is x: x gets dy (s + y (1 - s)) with s = sigmoid(x), four
// element-wise operations where the two rules one after the other take six. The gradient of s is thereby part of that of
// x, so it must not be wanted for itself.
func (c *Context) siluOf(i int) bool {
	x, s := c.In(i), c.In(1-i)
	maker := c.walk.makers[s]
	if maker == nil || maker.OpType != "Sigmoid" || !slices.Equal(maker.Input, []string{x}) || c.walk.wrt[s] || !c.Needs(i) {
		return false
	}
	rest := c.Op("Mul", c.Out(0), c.complement(s))
	c.SetGrad(i, c.timesGrad(c.Op("Add", s, rest)))
	return true
}
