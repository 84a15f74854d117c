package gradient

import (
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// Exporters write shapes as small computations: Shape, pick an element, put it together with constants. The functions of
// this file follow the numbers through them, and sizes that are not known by their names, so that a Reshape to
// (batch, 64) is known to keep the batch axis.

// sizes gives the elements of an integer list or number: numbers, also negative ones, or names of sizes.
func (s *Site) sizes(name string) ([]ir.Dim, bool) {
	if values, ok := s.ints[name]; ok {
		return ir.FixedDims(values...), true
	}
	dims, ok := s.dims[name]
	return dims, ok
}

// setSizes stores the elements of the node's output.
func (s *Site) setSizes(dims []ir.Dim) {
	if slices.ContainsFunc(dims, func(d ir.Dim) bool { return !d.Set }) {
		s.dims[s.Out(0)] = dims
		return
	}
	values := make([]int64, len(dims))
	for i, d := range dims {
		values[i] = d.Size
	}
	s.ints[s.Out(0)] = values
}

// copySizes passes the elements on through a node that keeps them all in order.
func (s *Site) copySizes() {
	if dims, ok := s.sizes(s.In(0)); ok {
		s.setSizes(dims)
	}
}

// shapeSizes follows Shape, whose attributes start and end cut axes off.
func (s *Site) shapeSizes() {
	x := s.Type(0)
	if !x.Ranked {
		return
	}
	n := int64(len(x.Shape))
	start := clampIndex(ir.AttrInt(s.Node, "start", 0), n, 0, n)
	end := clampIndex(ir.AttrInt(s.Node, "end", math.MaxInt64), n, 0, n)
	s.setSizes(slices.Clone(x.Shape[start:max(start, end)]))
}

func (s *Site) gatherSizes() {
	from, ok := s.sizes(s.In(0))
	index, known := s.ints[s.In(1)]
	if !ok || !known || len(s.Type(0).Shape) != 1 {
		return
	}
	places, ok := countedFromStart(index, int64(len(from)))
	if !ok {
		return
	}
	out := make([]ir.Dim, len(places))
	for i, p := range places {
		out[i] = from[p]
	}
	s.setSizes(out)
}

func (s *Site) concatSizes() {
	var out []ir.Dim
	for i, in := range s.Node.Input {
		part, ok := s.sizes(in)
		if !ok || len(s.Type(i).Shape) != 1 || len(out) > maxRank {
			return
		}
		out = append(out, part...)
	}
	s.setSizes(out)
}

func (s *Site) sliceSizes(cut map[int]piece) {
	from, ok := s.sizes(s.In(0))
	p, found := cut[0]
	if !ok || !found || len(s.Type(0).Shape) != 1 || !s.Type(0).Shape[0].Is(int64(len(from))) {
		return
	}
	out := make([]ir.Dim, p.size())
	for i := range out {
		out[i] = from[p.start+int64(i)*p.step]
	}
	s.setSizes(out)
}

// sizesType is the type of a value whose shape is given by a list; where that is computed, its length may be known.
func (s *Site) sizesType(input int) Type {
	if dims, ok := s.sizes(s.In(input)); ok && len(dims) <= maxRank {
		t := Type{Shape: slices.Clone(dims), Ranked: true}
		for i, d := range t.Shape {
			if d.Set && d.Size < 0 {
				t.Shape[i] = ir.Dim{}
			}
		}
		return t
	}
	if shape := s.Type(input).Shape; len(shape) == 1 && shape[0].Set && shape[0].Size <= maxRank {
		return Type{Shape: make([]ir.Dim, shape[0].Size), Ranked: true}
	}
	return Type{}
}
