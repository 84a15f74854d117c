package gradient

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// The operators of this file carry no gradient; what they do to shapes matters to the operators around them.

func inferConstant(s *Site) []Type {
	n := s.Node
	if a := ir.Attr(n, "value"); a.GetT() != nil {
		return []Type{tensorType(a.GetT())}
	}
	switch {
	case ir.Attr(n, "value_float") != nil:
		return []Type{{ir.Float32, nil, true}}
	case ir.Attr(n, "value_int") != nil:
		return []Type{{ir.Int64, nil, true}}
	case ir.Attr(n, "value_floats") != nil:
		return []Type{{ir.Float32, ir.FixedDims(int64(len(ir.Attr(n, "value_floats").Floats))), true}}
	case ir.Attr(n, "value_ints") != nil:
		return []Type{{ir.Int64, ir.FixedDims(int64(len(ir.AttrInts(n, "value_ints")))), true}}
	}
	return []Type{{}}
}

// constantFloats gives the values of a float32 Constant node with at most one dimension.
func constantFloats(n *onnxpb.NodeProto) ([]float32, bool) {
	if a := ir.Attr(n, "value"); a.GetT() != nil {
		values, err := ir.Float32s(a.GetT())
		return values, err == nil && len(a.GetT().GetDims()) <= 1
	}
	if a := ir.Attr(n, "value_floats"); a != nil {
		return a.GetFloats(), true
	}
	return nil, false
}

func inferShape(s *Site) []Type {
	x := s.Type(0)
	if !x.Ranked || ir.Attr(s.Node, "start") != nil || ir.Attr(s.Node, "end") != nil {
		return []Type{{ir.Int64, make([]ir.Dim, 1), true}}
	}
	return []Type{{ir.Int64, ir.FixedDims(int64(len(x.Shape))), true}}
}

func inferSize(*Site) []Type { return []Type{{ir.Int64, nil, true}} }

func inferConstantOfShape(s *Site) []Type {
	out := Type{Elem: ir.Float32}
	if a := ir.Attr(s.Node, "value"); a.GetT() != nil {
		out.Elem = a.GetT().GetDataType()
	}
	if target, ok := s.target(s.In(0)); ok {
		out.Shape, out.Ranked = target.Shape, true
	} else if shape := s.Type(0).Shape; len(shape) == 1 && shape[0].Set && shape[0].Size < maxRank {
		out.Shape, out.Ranked = make([]ir.Dim, shape[0].Size), true
	}
	return []Type{out}
}

// maxRank bounds the ranks that a damaged file can make inference allocate; no operator gives more axes than a few.
const maxRank = 64

// fixedType is a shape given by numbers; a negative one is not known.
func fixedType(sizes []int64) Type {
	t := Type{Shape: make([]ir.Dim, len(sizes)), Ranked: true}
	for i, n := range sizes {
		if n >= 0 {
			t.Shape[i] = ir.Fixed(n)
		}
	}
	return t
}

func inferNonZero(s *Site) []Type {
	out := Type{ir.Int64, make([]ir.Dim, 2), true}
	if x := s.Type(0); x.Ranked {
		out.Shape[0] = ir.Fixed(int64(max(len(x.Shape), 1)))
	}
	return []Type{out}
}

func inferArg(s *Site) []Type {
	x := s.Type(0)
	axis, ok := x.Axis(ir.AttrInt(s.Node, "axis", 0))
	if !ok {
		return []Type{{Elem: ir.Int64}}
	}
	shape := slices.Clone(x.Shape)
	if ir.AttrInt(s.Node, "keepdims", 1) != 0 {
		shape[axis] = ir.Fixed(1)
	} else {
		shape = slices.Delete(shape, axis, axis+1)
	}
	return []Type{{ir.Int64, shape, true}}
}
