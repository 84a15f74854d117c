package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// Exporters write shapes as small computations on integers: the Shape of a value, Gather and Slice on it, arithmetic,
// Concat, and a Reshape to the result. Following them keeps types known. A number that the graph only knows when it
// runs is a dimension with a name here.

// maxFolded bounds the integer lists that are followed; longer ones are data, not shapes.
const maxFolded = 4096

// fold works out the integers that a node gives, where they follow from what is known.
func (t *typing) fold(s *Site) {
	n := s.Node
	if len(n.GetOutput()) != 1 || !ir.IsStandard(n.GetDomain()) {
		return
	}
	f, ok := folders[n.GetOpType()]
	if !ok {
		return
	}
	args := make([][]ir.Dim, len(n.GetInput()))
	for i, in := range n.GetInput() {
		args[i] = t.dims[in]
	}
	values, ok := f(s, args)
	if ok && len(values) <= maxFolded {
		t.setDims(n.GetOutput()[0], values)
	}
}

// setDims notes the integers of a value.
func (t *typing) setDims(name string, values []ir.Dim) {
	t.dims[name] = values
	sizes := make([]int64, len(values))
	for i, d := range values {
		if !d.Set {
			return
		}
		sizes[i] = d.Size
	}
	t.ints[name] = sizes
}

// folders give the integers of a node's only output from those of its inputs, nil where they are not known.
var folders = map[string]func(s *Site, args [][]ir.Dim) ([]ir.Dim, bool){
	"Constant": func(s *Site, _ [][]ir.Dim) ([]ir.Dim, bool) {
		values, ok := constantInts(s.Node)
		return ir.FixedDims(values...), ok
	},
	"Shape":     foldShape,
	"Identity":  foldSame,
	"Cast":      foldCast,
	"Unsqueeze": foldSame,
	"Squeeze":   foldSame,
	"Reshape":   foldSame,
	"Concat":    foldConcat,
	"Gather":    foldGather,
	"Slice":     foldSlice,
	"Add":       arithmetic(func(a, b int64) (int64, bool) { return a + b, true }, 0),
	"Sub":       arithmetic(func(a, b int64) (int64, bool) { return a - b, true }, 0),
	"Mul":       arithmetic(func(a, b int64) (int64, bool) { return a * b, true }, 1),
	"Div":       arithmetic(quotient, 1),
}

// integers says whether the first input of a node is made of integers, so that its values can be counts.
func (s *Site) integers() bool { return s.Type(0).Elem == ir.Int64 }

func foldShape(s *Site, _ [][]ir.Dim) ([]ir.Dim, bool) {
	x := s.Type(0)
	rank := int64(len(x.Shape))
	start := clampIndex(ir.AttrInt(s.Node, "start", 0), rank, 0, rank)
	end := clampIndex(ir.AttrInt(s.Node, "end", rank), rank, 0, rank)
	if !x.Ranked || start > end {
		return nil, false
	}
	return x.Shape[start:end], true
}

func foldSame(s *Site, args [][]ir.Dim) ([]ir.Dim, bool) {
	if len(args) == 0 || args[0] == nil || !s.integers() {
		return nil, false
	}
	return args[0], true
}

func foldCast(s *Site, args [][]ir.Dim) ([]ir.Dim, bool) {
	to := int32(ir.AttrInt(s.Node, "to", 0))
	if to != ir.Int64 {
		return nil, false
	}
	return foldSame(s, args)
}

func foldConcat(s *Site, args [][]ir.Dim) ([]ir.Dim, bool) {
	if !s.integers() || slices.ContainsFunc(args, func(a []ir.Dim) bool { return a == nil }) || len(s.Type(0).Shape) != 1 {
		return nil, false
	}
	return slices.Concat(args...), true
}

func foldGather(s *Site, args [][]ir.Dim) ([]ir.Dim, bool) {
	if len(args) != 2 || args[0] == nil || args[1] == nil || !s.integers() || len(s.Type(0).Shape) != 1 {
		return nil, false
	}
	out := []ir.Dim{}
	for _, index := range args[1] {
		i := index.Size
		if i < 0 {
			i += int64(len(args[0]))
		}
		if !index.Set || i < 0 || i >= int64(len(args[0])) {
			return nil, false
		}
		out = append(out, args[0][i])
	}
	return out, true
}

func foldSlice(s *Site, args [][]ir.Dim) ([]ir.Dim, bool) {
	if len(args) == 0 || args[0] == nil || !s.integers() || len(s.Type(0).Shape) != 1 {
		return nil, false
	}
	starts, given, known := s.Ints("starts", 1)
	ends, _, knownEnds := s.Ints("ends", 2)
	steps, stepped, knownSteps := s.Ints("", 4)
	if !given || !known || !knownEnds || !knownSteps || len(starts) != 1 || len(ends) != 1 || stepped && (len(steps) != 1 || steps[0] != 1) {
		return nil, false
	}
	n := int64(len(args[0]))
	start, end := clampIndex(starts[0], n, 0, n), clampIndex(ends[0], n, 0, n)
	return args[0][start:max(start, end)], true
}

func quotient(a, b int64) (int64, bool) {
	if b == 0 || a%b != 0 {
		return 0, false // rounding is not followed
	}
	return a / b, true
}

// arithmetic computes on numbers that are both known; with the neutral number on the right the left side stays.
func arithmetic(f func(a, b int64) (int64, bool), neutral int64) func(*Site, [][]ir.Dim) ([]ir.Dim, bool) {
	return func(s *Site, args [][]ir.Dim) ([]ir.Dim, bool) {
		if len(args) != 2 || len(args[0]) == 0 || len(args[1]) == 0 || !s.integers() || len(s.Type(0).Shape) > 1 || len(s.Type(1).Shape) > 1 {
			return nil, false
		}
		n := max(len(args[0]), len(args[1]))
		if len(args[0]) != n && len(args[0]) != 1 || len(args[1]) != n && len(args[1]) != 1 {
			return nil, false
		}
		out := make([]ir.Dim, n)
		for i := range out {
			a, b := args[0][i%len(args[0])], args[1][i%len(args[1])]
			switch {
			case a.Set && b.Set:
				v, ok := f(a.Size, b.Size)
				if !ok {
					return nil, false
				}
				out[i] = ir.Fixed(v)
			case b.Is(neutral):
				out[i] = a
			default:
				return nil, false
			}
		}
		return out, true
	}
}

// target is the shape that a list of integers in the graph stands for, where its length is known; a dimension that
// only the running graph knows has a name, a negative number is not known.
func (s *Site) target(name string) (Type, bool) {
	values, ok := s.dims[name]
	if !ok {
		return Type{}, false
	}
	out := Type{Shape: make([]ir.Dim, len(values)), Ranked: true}
	for i, d := range values {
		if !d.Set || d.Size >= 0 {
			out.Shape[i] = d
		}
	}
	return out, true
}

// constantInts gives the values of an integer Constant node.
func constantInts(n *onnxpb.NodeProto) ([]int64, bool) {
	if a := ir.Attr(n, "value"); a.GetT() != nil {
		values, err := ir.Int64s(a.GetT())
		return values, err == nil
	}
	if a := ir.Attr(n, "value_ints"); a != nil {
		return a.GetInts(), true
	}
	if a := ir.Attr(n, "value_int"); a != nil {
		return []int64{a.GetI()}, true
	}
	return nil, false
}
