package intake

import (
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// freeBatch makes the batch axis free: in the input, and in the targets of Reshape, which exporters write as numbers.
// Whether that was enough is proved on the probe.
func (a *adapter) freeBatch() {
	in := a.m.Graph.Input[0]
	dim := in.GetType().GetTensorType().GetShape().GetDim()[0]
	dim.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "N"}
	moving := map[string]bool{a.input: true}
	for _, n := range a.m.Graph.Node {
		if !slices.ContainsFunc(n.GetInput(), func(in string) bool { return moving[in] }) {
			continue
		}
		for _, out := range n.GetOutput() {
			moving[out] = true
		}
		if n.GetOpType() == "Reshape" && ir.IsStandard(n.GetDomain()) && len(n.GetInput()) == 2 && moving[n.Input[0]] {
			a.freeReshape(n)
		}
	}
}

// freeReshape replaces the batch size at the start of a constant target by "as in the source" where it stands alone, and
// by "what is left" where it is multiplied with something else.
func (a *adapter) freeReshape(n *onnxpb.NodeProto) {
	t := a.constant(n.Input[1])
	if t == nil {
		return
	}
	dims, err := ir.Int64s(t)
	if err != nil || len(dims) == 0 || dims[0] <= 0 || dims[0]%int64(a.batch) != 0 {
		return
	}
	switch {
	case dims[0] == int64(a.batch) && a.keepsRows(n.Input[0]):
		dims[0] = 0
	case !slices.Contains(dims, -1):
		dims[0] = -1
	default:
		return
	}
	if name, err := a.g.Constant(ir.Int64Tensor(n.Input[1]+"_free", dims...)); err == nil {
		n.Input[1] = name
	}
}

// keepsRows says whether a value surely has the batch as its first axis, so that 0 in a Reshape copies it: it comes from
// the input through operators that leave the first axis alone.
func (a *adapter) keepsRows(name string) bool {
	for name != a.input {
		n := a.maker(name)
		if n == nil || len(n.GetInput()) == 0 {
			return false
		}
		switch n.GetOpType() {
		case "Transpose":
			if perm := ir.AttrInts(n, "perm"); len(perm) == 0 || perm[0] != 0 {
				return false
			}
		case "Reshape":
			t := a.constant(n.Input[1])
			dims, err := ir.Int64s(t)
			if t == nil || err != nil || len(dims) == 0 || dims[0] != 0 && dims[0] != -1 {
				return false
			}
		case "Squeeze", "Unsqueeze", "Gather", "Tile", "Expand":
			return false
		}
		at := slices.IndexFunc(n.Input, func(in string) bool { return a.constant(in) == nil && in != "" })
		if at < 0 {
			return false
		}
		name = n.Input[at]
	}
	return true
}
