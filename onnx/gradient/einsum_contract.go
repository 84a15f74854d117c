package gradient

import (
	"slices"
	"strings"

	"github.com/jempipe/jempipe/onnx/ir"
)

// contract multiplies values with subscripts and sums over the letters that the target does not have. One product of
// two values is written as Mul or MatMul, which ONNX Runtime does in two thirds of the time that its Einsum takes.
// Values may be repeated along the letters named.
func (c *Context) contract(values, terms []string, target, names string) string {
	if !strings.Contains(strings.Join(terms, ""), dots) {
		for i := range values {
			if t := c.types[values[i]]; !t.Ranked {
				c.set(values[i], Type{t.Elem, make([]ir.Dim, len(terms[i])), true})
			}
			values[i], terms[i] = c.sumLone(values[i], terms, i, target)
		}
		switch {
		case len(values) == 1 && subset(terms[0], target):
			return c.permuted(values[0], terms[0], target)
		case len(values) == 2 && plain(terms[0]) && plain(terms[1]):
			if subset(terms[0]+terms[1], target) {
				return c.Op("Mul", c.aligned(values[0], terms[0], target), c.aligned(values[1], terms[1], target))
			}
			if p, ok := c.matrixProduct(values, terms, target, names); ok {
				return p
			}
		}
	} else if len(values) == 1 && terms[0] == target {
		return values[0]
	}
	equation := strings.ReplaceAll(strings.Join(terms, ",")+"->"+target, dots, "...")
	return c.OpWith("Einsum", values, ir.String("equation", equation))
}

// plain says that no letter is repeated.
func plain(term string) bool { return distinct(term) == term }

// sumLone sums over the letters that only one term has, where it has each of them once.
func (c *Context) sumLone(v string, terms []string, i int, target string) (string, string) {
	term := terms[i]
	if !plain(term) {
		return v, term
	}
	others := target + strings.Join(slices.Delete(slices.Clone(terms), i, i+1), "")
	var axes []int64
	for k := range len(term) {
		if !strings.Contains(others, term[k:k+1]) {
			axes = append(axes, int64(k))
		}
	}
	return c.ReduceSum(v, axes, false), pick(term, func(l string) bool { return strings.Contains(others, l) })
}

// permuted brings a value from one order of letters to another.
func (c *Context) permuted(v, from, to string) string {
	if from == to {
		return v
	}
	perm := make([]int64, len(to))
	for i := range perm {
		perm[i] = int64(strings.IndexByte(from, to[i]))
	}
	return c.Transpose(v, perm...)
}

// aligned gives a value the target's axes, with size 1 where its term lacks a letter.
func (c *Context) aligned(v, term, target string) string {
	order := pick(target, func(l string) bool { return strings.Contains(term, l) })
	v = c.permuted(v, term, order)
	full := target[strings.IndexFunc(target+" ", func(r rune) bool { return r == ' ' || strings.ContainsRune(term, r) }):]
	return c.insert(v, order, full)
}

// matrixProduct writes a contraction of two values as a product of matrices: with the letters in groups, by which of the
// values and the target have them,
//
//	target[batch, rows, columns] = sum over inner of a[batch, rows, inner] b[batch, inner, columns].
//
// A group of several letters becomes one axis where the sizes allow it.
func (c *Context) matrixProduct(values, terms []string, target, names string) (string, bool) {
	a, b := values[0], values[1]
	ta, tb := terms[0], terms[1]
	both := func(l string) bool { return strings.Contains(ta, l) && strings.Contains(tb, l) }
	tail := pick(target, func(l string) bool { return !both(l) })
	if tail != "" && strings.Contains(tb, tail[:1]) { // the columns come first, so the transposed product is wanted
		a, b, ta, tb = b, a, tb, ta
	}
	batch := pick(target, both)
	rows := pick(tail, func(l string) bool { return strings.Contains(ta, l) })
	columns := pick(tail, func(l string) bool { return strings.Contains(tb, l) })
	inner := pick(ta, func(l string) bool { return !strings.Contains(target, l) })
	if !subset(inner, tb) || strings.ContainsAny(inner, names) && !c.sameSizes(a, b, ta, tb, inner) {
		return "", false
	}
	left, right := c.matrix(a, ta, batch, rows, inner), c.matrix(b, tb, batch, inner, columns)
	if !left.possible || !right.possible {
		return "", false
	}
	split, ok := c.splitShape(batch, rows, columns, left.rows, right.columns)
	if !ok {
		return "", false
	}
	product := c.product(left.build(), right.build(), left.transposed, right.transposed)
	if split != nil {
		product = c.Op("Reshape", product, c.List(split...))
	}
	return c.permuted(product, batch+rows+columns, target), true
}

// sameSizes says that two values are known to agree along letters.
func (c *Context) sameSizes(a, b, ta, tb, along string) bool {
	for i := range len(along) {
		if !c.dim(a, ta, along[i]).Same(c.dim(b, tb, along[i])) {
			return false
		}
	}
	return true
}

// dim is the size of a value along a letter of its term.
func (c *Context) dim(v, term string, letter byte) ir.Dim {
	if t := c.types[v]; t.Ranked && len(t.Shape) == len(term) {
		return t.Shape[strings.IndexByte(term, letter)]
	}
	return ir.Dim{}
}

// matrixForm is how a value becomes a batch of matrices.
type matrixForm struct {
	possible      bool
	transposed    bool // the rows are the last axis
	rows, columns []ir.Dim
	build         func() string
}

func (c *Context) matrix(v, term, batch, rows, columns string) matrixForm {
	m := matrixForm{transposed: term == batch+columns+rows && term != batch+rows+columns}
	dims := func(group string) []ir.Dim {
		out := make([]ir.Dim, len(group))
		for i := range out {
			out[i] = c.dim(v, term, group[i])
		}
		return out
	}
	m.rows, m.columns = dims(rows), dims(columns)
	order, first, second := batch+rows+columns, m.rows, m.columns
	if m.transposed {
		order, first, second = term, m.columns, m.rows
	}
	shape, ok := mergedShape(len(batch), first, second)
	m.possible = ok
	m.build = func() string {
		out := c.permuted(v, term, order)
		if len(rows) != 1 || len(columns) != 1 {
			out = c.Op("Reshape", out, c.List(shape...))
		}
		return out
	}
	return m
}

// mergedShape is the target of a Reshape that makes one axis of each of two groups behind the batch axes. It can leave
// one size to the operator.
func mergedShape(batch int, groups ...[]ir.Dim) ([]int64, bool) {
	shape := make([]int64, batch, batch+len(groups))
	unknown := 0
	for _, group := range groups {
		n, ok := product(group)
		if !ok {
			n = -1
			unknown++
		}
		shape = append(shape, n)
	}
	single := len(groups[0]) == 1 && len(groups[1]) == 1
	return shape, single || unknown <= 1 && !slices.Contains(shape[batch:], 0)
}

// splitShape is the target of the Reshape that divides the axes of a product into the groups' letters again; nil where
// they are one letter each.
func (c *Context) splitShape(batch, rows, columns string, rowDims, columnDims []ir.Dim) ([]int64, bool) {
	if len(rows) == 1 && len(columns) == 1 {
		return nil, true
	}
	shape := make([]int64, len(batch))
	unknown := 0
	for _, d := range slices.Concat(rowDims, columnDims) {
		if !d.Set {
			d.Size = -1
			unknown++
		}
		shape = append(shape, d.Size)
	}
	return shape, unknown <= 1 && !slices.Contains(shape[len(batch):], 0)
}
