package gradient

import (
	"errors"
	"math"

	"github.com/jempipe/jempipe/onnx/ir"
)

// attentionGradient differentiates the operations that attention is short for: with queries q, keys k and values v by
// heads, it is
//
//	y = p v, p = softmax(s + bias), s = q k^T scale.
//
// They are computed anew, as the node keeps none of them.
func attentionGradient(c *Context) error {
	return c.composed(func() []string {
		a := &attention{Context: c, qHeads: ir.AttrInt(c.Node, "q_num_heads", 0), kvHeads: ir.AttrInt(c.Node, "kv_num_heads", 0)}
		return a.forward()
	})
}

// attention writes the operations of the node. Its values have the shape (batch, heads, tokens, size).
type attention struct {
	*Context
	flat            bool // values come as (batch, tokens, heads times size)
	qHeads, kvHeads int64
	q, k            string
}

func (a *attention) forward() []string {
	if err := a.start(); err != nil {
		a.fail(err)
		return nil
	}
	a.q = a.byHeads(a.In(0), a.qHeads)
	a.k = a.continued(a.byHeads(a.In(1), a.kvHeads), a.In(4))
	v := a.continued(a.byHeads(a.In(2), a.kvHeads), a.In(5))
	outs := []string{"", a.k, v, ""}

	scores := a.Op("MatMul", a.scaled(), a.Transpose(a.repeated(a.k), 0, 1, 3, 2))
	stages := []string{scores}
	if softcap := float64(ir.AttrFloat(a.Node, "softcap", 0)); softcap != 0 {
		scores = a.Scale(a.Op("Tanh", a.Scale(scores, 1/softcap)), softcap)
	}
	stages = append(stages, scores)
	bias := a.bias()
	if bias != "" {
		scores = a.Op("Add", scores, bias)
	}
	stages = append(stages, scores)
	p := a.OpWith("Softmax", []string{scores}, ir.Int("axis", -1))
	if bias != "" { // Rows where everything is masked give 0.
		top := a.reduceWith("ReduceMax", bias, []int64{-1}, true)
		p = a.Op("Where", a.Op("Equal", top, a.Scalar(a.q, math.Inf(-1))), a.Scalar(a.q, 0), p)
	}
	stages = append(stages, p)
	if mode := ir.AttrInt(a.Node, "qk_matmul_output_mode", 0); mode >= 0 && int(mode) < len(stages) {
		outs[3] = stages[mode]
	}
	y := a.Op("MatMul", p, a.repeated(v))
	if a.flat {
		y = a.Op("Reshape", a.Transpose(y, 0, 2, 1, 3), a.List(0, 0, -1))
	}
	outs[0] = y
	return outs
}

// start finds the form of the values.
func (a *attention) start() error {
	rank := a.Rank(a.In(0))
	a.flat = rank == 3
	for i := range 3 {
		if a.Rank(a.In(i)) != rank || rank < 3 || rank > 4 {
			a.fail(errors.New("its first three inputs must have 3 or 4 dimensions, all the same number"))
		}
	}
	if a.flat && (a.qHeads <= 0 || a.kvHeads <= 0) {
		a.fail(errors.New("its attributes q_num_heads and kv_num_heads are missing"))
	}
	return a.err
}

// byHeads divides a value among heads.
func (a *attention) byHeads(x string, heads int64) string {
	if !a.flat {
		return x
	}
	return a.Transpose(a.Op("Reshape", x, a.List(0, 0, heads, -1)), 0, 2, 1, 3)
}

// continued puts a value behind that of the tokens before.
func (a *attention) continued(x, past string) string {
	if past == "" {
		return x
	}
	return a.OpWith("Concat", []string{past, x}, ir.Int("axis", 2))
}

// scaled is q times the scale, by default 1 / sqrt(size).
func (a *attention) scaled() string {
	if scale := float64(ir.AttrFloat(a.Node, "scale", 0)); scale != 0 {
		return a.Scale(a.q, scale)
	}
	return a.Op("Div", a.q, a.Op("Sqrt", a.castLike(a.sizeOf(a.q, 3), a.q)))
}

// repeated gives each head of the queries its head of keys or values, which several may share.
func (a *attention) repeated(x string) string {
	q, kv := a.heads(a.q), a.heads(x)
	if !q.Set || !kv.Set {
		a.fail(errors.New("the number of heads is not known: run ONNX shape inference on the model first"))
		return x
	}
	if q.Size == kv.Size {
		return x
	}
	if kv.Size == 0 || q.Size%kv.Size != 0 {
		a.fail(errors.New("its numbers of heads do not divide each other"))
		return x
	}
	wide := a.Op("Expand", a.Unsqueeze(x, []int64{2}), a.List(1, 1, q.Size/kv.Size, 1, 1))
	shape := a.OpWith("Concat", []string{a.List(0, q.Size, -1), a.sizeOf(x, 3)}, ir.Int("axis", 0))
	return a.Op("Reshape", wide, shape)
}

func (a *attention) heads(x string) ir.Dim {
	if axis, ok := a.types[x].Axis(1); ok {
		return a.types[x].Shape[axis]
	}
	return ir.Dim{}
}

// bias is what is added to the scores: -infinity where a token is masked. It is "" where there is none. A mask has as many
// columns as there are keys; ONNX Runtime refuses the shorter ones that the standard allows.
func (a *attention) bias() string {
	sum := ""
	for _, part := range []string{a.mask(), a.causal(), a.padding()} {
		switch {
		case sum == "":
			sum = part
		case part != "":
			sum = a.Op("Add", sum, part)
		}
	}
	return sum
}

func (a *attention) mask() string {
	if mask := a.In(3); mask != "" && a.types[mask].Elem == ir.Bool {
		return a.masked(a.Op("Not", mask))
	}
	return a.In(3)
}

// causal masks the keys that come after a query. Query i is token i behind those of the past, or behind the keys in use
// that are not from these queries.
func (a *attention) causal() string {
	if ir.AttrInt(a.Node, "is_causal", 0) == 0 {
		return ""
	}
	queries := a.sizeOf(a.q, 2)
	token := a.Unsqueeze(a.count(queries), []int64{1})
	if past := a.In(4); past != "" {
		token = a.Op("Add", token, a.sizeOf(past, 2))
	} else if used := a.In(6); used != "" {
		token = a.Op("Add", token, a.Unsqueeze(a.Op("Sub", used, queries), []int64{1, 2, 3}))
	}
	return a.masked(a.Op("Less", token, a.count(a.sizeOf(a.k, 2))))
}

// padding masks keys that are not in use, of which input 6 gives the number for each example.
func (a *attention) padding() string {
	if a.In(6) == "" {
		return ""
	}
	used := a.Unsqueeze(a.In(6), []int64{1, 2, 3})
	return a.masked(a.Op("GreaterOrEqual", a.count(a.sizeOf(a.k, 2)), used))
}

// count is the list 0, 1, ..., n-1.
func (a *attention) count(n string) string {
	zero, one := a.Op("Squeeze", a.List(0)), a.Op("Squeeze", a.List(1))
	return a.Op("Range", zero, a.Op("Squeeze", n), one)
}

// masked is -infinity where a condition holds, else 0.
func (a *attention) masked(where string) string {
	return a.Op("Where", where, a.Scalar(a.q, math.Inf(-1)), a.Scalar(a.q, 0))
}

func inferAttention(s *Site) []Type {
	q := s.Type(0)
	some := Type{Elem: q.Elem, Ranked: true, Shape: make([]ir.Dim, 4)}
	y := Type{Elem: q.Elem, Ranked: q.Ranked, Shape: make([]ir.Dim, len(q.Shape))}
	if q.Ranked && len(q.Shape) >= 3 {
		copy(y.Shape, q.Shape[:len(q.Shape)-1])
	}
	return []Type{y, some, some, some}
}
