package refit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// arithmetic are the optimisations that compute new weights from constant ones, by ONNX Runtime's names. They are left
// out, since weights could no longer be put in place by copying.
var arithmetic = []string{"ConvAddFusion", "ConvBNFusion", "ConvMulFusion", "MatMul_BatchNormalization_Fusion"}

// The numbers are whole and below 2^24, so that float32 holds them exactly, products with 0 and 1 and their sums
// included. They start above 0 and 1, which some optimisations look for.
const (
	firstNumber = 1 << 10
	digits      = 1 << 20
)

// untraceable says why the constants of an optimised model could not be traced to the weights.
type untraceable struct{ reason string }

func (u *untraceable) Error() string { return u.reason }

// trace optimises a model and finds for each of its constants that came from the parameters listed in numbered how it is
// put together. Each element of a parameter has a number, which two optimisations tell by its digits, one of them
// negated: what does not change between them did not come from a weight. A third one, with random weights, is the
// check.
func trace(rt *ort.Runtime, m *onnxpb.ModelProto, p model.Params, numbered []int, opt ort.SessionOptions) (map[string][]run, *onnxpb.ModelProto, error) {
	opt.Without = append(opt.Without, arithmetic...)
	rng := rand.New(rand.NewPCG(1, 0))
	fillings := []func(at int) float32{
		func(at int) float32 { return float32(firstNumber + at%digits) },
		func(at int) float32 { return -float32(firstNumber + at/digits) },
		func(int) float32 { return 1 + rng.Float32() },
	}
	var models [3]*onnxpb.ModelProto
	var check model.Params
	for k, number := range fillings {
		filled := fill(m, p, numbered, number)
		if k == 2 {
			check = filled
		}
		var err error
		if models[k], err = optimise(rt, m, opt); err != nil {
			return nil, nil, err
		}
		if k > 0 && !sameGraph(models[0], models[k]) {
			return nil, nil, &untraceable{"the graph that the library makes depends on the values of the weights"}
		}
	}
	parts := map[string][]run{}
	high, random := constants(models[1]), constants(models[2])
	for _, t := range models[0].Graph.Initializer {
		name := t.GetName()
		if t.GetDataType() != ir.Float32 {
			continue
		}
		runs, err := decode(t, high[name], random[name], p, numbered, check)
		if err != nil {
			return nil, nil, err
		}
		if len(runs) > 0 {
			parts[name] = runs
		}
	}
	return parts, models[0], nil
}

// fill gives the constants of a model that are parameters new values, one for each number, and gives these values too.
func fill(m *onnxpb.ModelProto, p model.Params, numbered []int, number func(at int) float32) model.Params {
	out := make(model.Params, len(p))
	at := 0
	for _, i := range numbered {
		data := make([]float32, len(p[i].Data))
		for j := range data {
			data[j] = number(at)
			at++
		}
		out[i] = model.Tensor{Name: p[i].Name, Shape: p[i].Shape, Data: data}
		for k, t := range m.Graph.Initializer {
			if t.GetName() == p[i].Name {
				m.Graph.Initializer[k] = ir.Float32Tensor(t.GetName(), t.GetDims(), data)
			}
		}
	}
	return out
}

func optimise(rt *ort.Runtime, m *onnxpb.ModelProto, opt ort.SessionOptions) (*onnxpb.ModelProto, error) {
	data, err := ir.Marshal(m)
	if err != nil {
		return nil, err
	}
	if data, err = rt.Optimize(data, opt); err != nil {
		return nil, err
	}
	return ir.Load(data)
}

// sameGraph says whether two optimised models differ in the values of their constants only, and in the order and the
// names of nodes, which the library chooses by addresses in memory.
func sameGraph(a, b *onnxpb.ModelProto) bool {
	return slices.Equal(content(a), content(b))
}

// content lists the nodes of a model, without their names, and the names and types of its constants.
func content(m *onnxpb.ModelProto) []string {
	var list []string
	for _, n := range m.Graph.Node {
		anonymous := &onnxpb.NodeProto{OpType: n.OpType, Domain: n.Domain, Input: n.Input, Output: n.Output, Attribute: n.Attribute}
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(anonymous)
		list = append(list, fmt.Sprintf("%x %v", data, err))
	}
	for _, t := range m.Graph.Initializer {
		list = append(list, fmt.Sprint(t.GetName(), t.GetDataType(), t.GetDims()))
	}
	slices.Sort(list)
	return list
}

// constants are the float32 constants of a model by name.
func constants(m *onnxpb.ModelProto) map[string]*onnxpb.TensorProto {
	list := map[string]*onnxpb.TensorProto{}
	for _, t := range m.Graph.Initializer {
		if t.GetDataType() == ir.Float32 {
			list[t.GetName()] = t
		}
	}
	return list
}

// decode finds how a constant is put together from its values in three optimisations; no runs where it does not depend
// on the weights.
func decode(low, high, random *onnxpb.TensorProto, p model.Params, numbered []int, check model.Params) ([]run, error) {
	var v [3][]float32
	for i, t := range []*onnxpb.TensorProto{low, high, random} {
		var err error
		if v[i], err = ir.Float32s(t); err != nil {
			return nil, err
		}
	}
	ends := make([]int, len(numbered)) // numbers up to and with each parameter
	total := 0
	for k, i := range numbered {
		total += len(p[i].Data)
		ends[k] = total
	}
	b := builder{}
	fixed, k := 0, 0
	for j := range v[0] {
		if v[0][j] == v[1][j] && v[1][j] == v[2][j] {
			if v[0][j] != 0 {
				fixed++
			}
			continue
		}
		at := (-int(v[1][j])-firstNumber)*digits + int(v[0][j]) - firstNumber
		if float64(v[0][j]) != math.Trunc(float64(v[0][j])) || at < 0 || at >= total {
			return nil, computed(low)
		}
		for at >= ends[k] {
			k++
		}
		for k > 0 && at < ends[k-1] {
			k--
		}
		i := numbered[k]
		src := at - (ends[k] - len(p[i].Data))
		if check[i].Data[src] != v[2][j] {
			return nil, computed(low)
		}
		b.add(j, i, src)
	}
	if len(b.runs) > 0 && fixed > 0 {
		return nil, computed(low)
	}
	return b.runs, nil
}

func computed(t *onnxpb.TensorProto) error {
	return &untraceable{"the library computes constant " + t.GetName() + " from weights when it loads the model"}
}
