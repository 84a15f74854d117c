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
	return []Type{s.shapeFrom(0).withElem(out.Elem)}
}

// maxRank bounds the ranks that a damaged file can make inference allocate; no operator gives more axes than a few.
const maxRank = 64

// shapeFrom is the shape that an input states; where it is computed, the number of dimensions may still be known.
func (s *Site) shapeFrom(input int) Type {
	if t, ok := s.target(s.In(input)); ok {
		return t
	}
	if shape := s.Type(input).Shape; len(shape) == 1 && shape[0].Set && shape[0].Size <= maxRank {
		return Type{Shape: make([]ir.Dim, shape[0].Size), Ranked: true}
	}
	return Type{}
}

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

// inferTyped is for operators whose output has the shape of the input, and its type unless dtype says otherwise.
func inferTyped(s *Site) []Type {
	x := s.Type(0)
	return []Type{x.withElem(int32(ir.AttrInt(s.Node, "dtype", int64(x.Elem))))}
}

func inferRandom(s *Site) []Type {
	return []Type{fixedType(ir.AttrInts(s.Node, "shape")).withElem(int32(ir.AttrInt(s.Node, "dtype", int64(ir.Float32))))}
}

func inferWindow(s *Site) []Type {
	out := Type{Elem: int32(ir.AttrInt(s.Node, "output_datatype", int64(ir.Float32))), Shape: make([]ir.Dim, 1), Ranked: true}
	if n, ok := s.ints[s.In(0)]; ok && len(n) == 1 && n[0] >= 0 {
		out.Shape[0] = ir.Fixed(n[0])
	}
	return []Type{out}
}

func inferMelWeights(s *Site) []Type {
	return []Type{{int32(ir.AttrInt(s.Node, "output_datatype", int64(ir.Float32))), make([]ir.Dim, 2), true}}
}

func inferNonMaxSuppression(*Site) []Type {
	return []Type{{ir.Int64, []ir.Dim{{}, ir.Fixed(3)}, true}}
}
