package gradient

import (
	"fmt"
	"strings"

	"github.com/jempipe/jempipe/onnx/ir"
)

// einsumGradient: y is a sum of products of the operands' elements, linear in each operand, so an operand gets the same
// kind of sum over dy and the other operands, written to the operand's own subscripts. In it
//
//   - along a letter that neither another operand nor the output has, the gradient is repeated;
//   - an operand in which a letter is repeated gave its diagonal, so the gradient is put there, and 0 elsewhere;
//   - along axes of an ellipsis that an operand was repeated along, the gradient is summed.
func einsumGradient(c *Context) error {
	eq, err := parseEinsum(ir.AttrString(c.Node, "equation", ""), len(c.Node.Input))
	if err != nil {
		return err
	}
	names := dots
	if count, ok := c.ellipses(eq); ok {
		if eq, names, err = eq.spelt(count); err != nil {
			return err
		}
	}
	for i, own := range eq.inputs {
		if !c.Needs(i) {
			continue
		}
		if strings.Index(own, dots) > 0 {
			return fmt.Errorf("its input %q has letters in front of an ellipsis, for which the number of dimensions of all inputs must be known: run ONNX shape inference on the model first", c.In(i))
		}
		c.einsumOperand(eq, i, names)
	}
	return nil
}

// ellipses counts the axes that the ellipsis of each operand stands for; false where an operand's rank is not known.
func (s *Site) ellipses(eq einsum) ([]int, bool) {
	count := make([]int, len(eq.inputs))
	for i, term := range eq.inputs {
		if strings.Contains(term, dots) {
			count[i] = len(s.Type(i).Shape) - len(term) + 1
		}
		if strings.Contains(term, dots) && !s.Type(i).Ranked || count[i] < 0 {
			return nil, false
		}
	}
	return count, true
}

// einsumOperand sets the gradient of operand i; names are the letters along which operands are broadcast.
func (c *Context) einsumOperand(eq einsum, i int, names string) {
	own, x := eq.inputs[i], c.In(i)
	values, terms := []string{c.Grad(0)}, []string{eq.output}
	for j, term := range eq.inputs {
		if j != i {
			values, terms = append(values, c.In(j)), append(terms, term)
		}
	}
	all := strings.Join(terms, "")
	found := pick(distinct(own), func(l string) bool { return strings.Contains(all, l) })
	target := found
	if names == dots && strings.Contains(eq.output, dots) && !strings.Contains(own, dots) {
		target = dots + found // Einsum cannot sum over an ellipsis, so that is done below
	}
	dx := c.contract(values, terms, target, names)
	if dx != c.Grad(0) {
		c.set(dx, c.einsumType(dx, target, own, names, x))
	}
	dx = c.insert(dx, found, own)
	dx = c.ontoDiagonals(dx, own, x)
	if lone := pick(own, func(l string) bool { return !strings.Contains(all, l) && strings.Count(own, l) == 1 }); lone != "" {
		wide := broadcast(c.types[dx], c.types[x])
		dx = c.Op("Expand", dx, c.ShapeOf(x))
		c.set(dx, wide)
	}
	if names != "" && (strings.ContainsAny(own, names) || target != found) {
		dx = c.reduceTo(dx, x)
	}
	c.SetGrad(i, dx)
}

// einsumType is the type of an operand's gradient by subscripts. Only along the letters of an ellipsis may it have
// other sizes than the operand x.
func (c *Context) einsumType(dx, subscripts, own, names, x string) Type {
	got, like := c.types[dx], c.types[x]
	if strings.Contains(subscripts, dots) || !like.Ranked || len(like.Shape) != len(own) {
		return Type{Elem: like.Elem}
	}
	shape := make([]ir.Dim, len(subscripts))
	for i := range shape {
		l := subscripts[i : i+1]
		switch {
		case !strings.Contains(names, l):
			shape[i] = like.Shape[strings.Index(own, l)]
		case got.Ranked && len(got.Shape) == len(shape):
			shape[i] = got.Shape[i]
		}
	}
	return Type{Elem: like.Elem, Shape: shape, Ranked: true}
}

// insert gives a value of some letters of a term axes of size 1 for the others, and for repetitions of a letter.
func (c *Context) insert(v, found, term string) string {
	var axes []int64
	for i := range len(term) {
		if l := term[i : i+1]; !strings.Contains(found, l) || strings.Index(term, l) < i {
			axes = append(axes, int64(i-len(term)))
		}
	}
	return c.Unsqueeze(v, axes)
}

// ontoDiagonals puts a value that has size 1 at the repetitions of letters on the diagonal of these axes.
func (c *Context) ontoDiagonals(v, term, x string) string {
	for i := range len(term) {
		first := strings.Index(term, term[i:i+1])
		if first == i {
			continue
		}
		places := c.places(x, first-len(term))
		index := func(axis int) string { return c.Unsqueeze(places, following(len(term)-1-axis)) }
		v = c.Op("Where", c.Op("Equal", index(first), index(i)), v, c.Scalar(x, 0))
	}
	return v
}

// places counts 0, 1, ... along an axis of x, which is given from the end.
func (c *Context) places(x string, axis int) string {
	if shape := c.types[x].Shape; c.types[x].Ranked && len(shape)+axis >= 0 {
		if d := shape[len(shape)+axis]; d.Set && d.Size < 1<<12 {
			list := make([]int64, d.Size)
			for i := range list {
				list[i] = int64(i)
			}
			return c.List(list...)
		}
	}
	number := func(v int64) string { return c.Squeeze(c.List(v), []int64{0}) }
	size := c.OpWith("Gather", []string{c.Op("Shape", x), number(int64(axis))}, ir.Int("axis", 0))
	return c.Op("Range", number(0), size, number(1))
}

// following are the axes 1 to n.
func following(n int) []int64 {
	var axes []int64
	for i := range n {
		axes = append(axes, int64(i+1))
	}
	return axes
}

func inferEinsum(s *Site) []Type {
	out := Type{Elem: s.Type(0).Elem}
	eq, err := parseEinsum(ir.AttrString(s.Node, "equation", ""), len(s.Node.Input))
	if err != nil {
		return []Type{out}
	}
	count, ok := s.ellipses(eq)
	if !ok {
		return []Type{out}
	}
	eq, names, err := eq.spelt(count)
	if err != nil {
		return []Type{out}
	}
	out.Shape, out.Ranked = make([]ir.Dim, len(eq.output)), true
	for k := range out.Shape {
		l := eq.output[k : k+1]
		var sizes []ir.Dim
		for i, term := range eq.inputs {
			if at := strings.Index(term, l); at >= 0 && s.Type(i).Ranked && at < len(s.Type(i).Shape) {
				sizes = append(sizes, s.Type(i).Shape[at])
			}
		}
		out.Shape[k] = sizeOf(sizes, strings.Contains(names, l))
	}
	return []Type{out}
}

// sizeOf is the size that operands give one letter: ONNX Runtime repeats them along every letter, not only those of an
// ellipsis. Only there are sizes that may differ taken to do so.
func sizeOf(sizes []ir.Dim, repeated bool) ir.Dim {
	if len(sizes) == 0 {
		return ir.Dim{}
	}
	out := ir.Fixed(1)
	for _, d := range sizes {
		out = broadcastDim(out, d)
	}
	if !out.Set && out.Name == "" && !repeated {
		return sizes[0]
	}
	return out
}
