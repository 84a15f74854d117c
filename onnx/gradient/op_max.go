package gradient

// maxGradient: y = max(a, b, ...), so the largest gets dy; of several that are equally large the first.
func maxGradient(c *Context) error { return c.winner("Less") }

// minGradient: y = min(a, b, ...), so the smallest gets dy; of several that are equally small the first.
func minGradient(c *Context) error { return c.winner("Greater") }

// winner passes the gradient on from input to input: each takes it where it is the result, and leaves the rest to those
// after it. loses is the comparison with the result that holds for the others.
func (c *Context) winner(loses string) error {
	last := len(c.Node.Input) - 1
	for last > 0 && !c.Needs(last) {
		last--
	}
	rest := c.Grad(0)
	for i := 0; i <= last; i++ {
		if i == len(c.Node.Input)-1 {
			c.SetBroadcast(i, rest)
			break
		}
		lost := c.Op(loses, c.In(i), c.Out(0))
		if i == last { // nobody asks for what is left
			c.SetBroadcast(i, c.Op("Mul", rest, c.castLike(c.Op("Not", lost), rest)))
			break
		}
		left := c.Op("Mul", rest, c.castLike(lost, rest))
		if c.Needs(i) {
			c.SetBroadcast(i, c.Op("Sub", rest, left))
		}
		rest = left
	}
	return nil
}
