package intake

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// reshape frees the axis of a constant target that has the rows. A Reshape leaves the values in their order, so the rows
// lie behind as many values as before.
func (f *freer) reshape(n *onnxpb.NodeProto) {
	to := slices.Clone(f.constantSizes(n.Input[1]))
	if ir.AttrInt(n, "allowzero", 0) != 0 && !slices.Contains(to, 0) {
		n.Attribute = slices.DeleteFunc(n.Attribute, func(at *onnxpb.AttributeProto) bool { return at.GetName() == "allowzero" })
	}
	if len(to) == 0 || ir.AttrInt(n, "allowzero", 0) != 0 {
		return
	}
	p, ok := f.rows(n.Input[0])
	before, sized := f.fixed[n.Input[0]].Static()
	if !ok || !sized || len(before) != len(f.typeOf(n.Input[0]).Shape) {
		f.guess(n, to)
		return
	}
	sizes := resolved(to, before)
	if sizes == nil {
		return
	}
	lead := p.lead
	for _, d := range before[:p.axis] {
		lead *= int(d)
	}
	q, ok := landing(sizes, lead, f.batch)
	if !ok {
		return
	}
	switch {
	case to[q.axis] == -1 || to[q.axis] == 0: // free already
	case q.axis == p.axis && sizes[q.axis] == before[q.axis]:
		to[q.axis] = 0
		f.setSizes(n, to)
	default:
		for i, d := range to {
			if d == -1 || d == 0 && i != p.axis {
				to[i] = sizes[i]
			}
		}
		to[q.axis] = -1
		f.setSizes(n, to)
	}
	if t := f.typeOf(n.Output[0]); t.Ranked && len(t.Shape) == len(sizes) && !t.Shape[q.axis].Set && t.Shape[q.axis].Name != rowsName {
		f.shared[t.Shape[q.axis].Name] = q
	}
}

// resolved are the sizes that a target means; nil where they do not fit.
func resolved(to, from []int64) []int64 {
	out := slices.Clone(to)
	all, known, rest := int64(1), int64(1), -1
	for _, d := range from {
		all *= d
	}
	for i, d := range out {
		switch {
		case d == -1 && rest < 0:
			rest = i
			continue
		case d == 0 && i < len(from):
			out[i] = from[i]
		case d <= 0:
			return nil
		}
		known *= out[i]
	}
	if rest >= 0 && known > 0 {
		out[rest] = all / known
		known *= out[rest]
	}
	if known != all || all == 0 {
		return nil
	}
	return out
}

// landing says in which axis of a shape the rows are that lie behind so many values. With a batch of 1 there may be
// several: best is an axis of nothing but rows, then one whose first factor they are, and the last axis only where
// there is no other, since layers run over it.
func landing(shape []int64, lead, batch int) (best place, ok bool) {
	rank, before := 4, int64(1)
	for j, d := range shape {
		inner := int64(lead) / before
		if before > int64(lead) {
			break
		}
		if int64(lead)%before == 0 && d%(inner*int64(batch)) == 0 {
			p := place{j, int(inner), int(d / inner / int64(batch))}
			r := 2
			switch {
			case p.lead == 1 && p.tail == 1:
				r = 0
			case j == len(shape)-1:
				r = 3
			case p.lead == 1:
				r = 1
			}
			if r < rank {
				best, rank = p, r
			}
		}
		before *= d
	}
	return best, rank < 4
}

// guess frees the first axis of a target where it is not known where the rows lie.
func (f *freer) guess(n *onnxpb.NodeProto, to []int64) {
	switch {
	case to[0] <= 0 || to[0]%int64(f.batch) != 0:
		return
	case !slices.Contains(to, -1):
		to[0] = -1
	case to[0] == int64(f.batch):
		to[0] = 0
	default:
		return
	}
	f.setSizes(n, to)
}
