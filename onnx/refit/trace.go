package refit

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime/debug"
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

// numbers are the values that the weights have in the three optimisations, by the number of an element.
var numbers = [...]func(at int) float32{
	func(at int) float32 { return float32(firstNumber + at%digits) },
	func(at int) float32 { return -float32(firstNumber + at/digits) },
	func(at int) float32 { return 1 + float32(mix(uint64(at))>>41)/(1<<23) },
}

// mix is the SplitMix64 finaliser behind an increment (Steele, Lea and Flood 2014).
func mix(z uint64) uint64 {
	z = (z + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// trace optimises a model and finds for each of its constants that came from the parameters listed in numbered how it is
// put together. Each element of a parameter has a number, which two optimisations tell by its digits, one of them
// negated: what does not change between them did not come from a weight. A third one, with random weights, is the
// check. The optimised models are as large as all weights several times over, so each is dropped as soon as it is read.
func trace(rt *ort.Runtime, m *onnxpb.ModelProto, p model.Params, numbered []int, opt ort.SessionOptions) (map[string][]run, *onnxpb.ModelProto, error) {
	opt.Without = append(opt.Without, arithmetic...)
	first, err := optimise(rt, m, p, numbered, 0, opt)
	if err != nil {
		return nil, nil, err
	}
	t := tracing{params: p, numbered: numbered, low: map[string][]float32{}, sources: map[string][]int32{}}
	for _, c := range first.Graph.Initializer {
		if c.GetDataType() != ir.Float32 {
			continue
		}
		if t.low[c.GetName()], err = ir.Float32s(c); err != nil {
			return nil, nil, err
		}
	}
	for k, read := range []func(*onnxpb.TensorProto, []float32) error{t.locate, t.check} {
		next, err := optimise(rt, m, p, numbered, k+1, opt)
		if err != nil {
			return nil, nil, err
		}
		if !slices.Equal(content(first), content(next)) {
			return nil, nil, &untraceable{"the graph that the library makes depends on the values of the weights"}
		}
		for _, c := range next.Graph.Initializer {
			if c.GetDataType() != ir.Float32 {
				continue
			}
			values, err := ir.Float32s(c)
			if err != nil {
				return nil, nil, err
			}
			if err := read(c, values); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, c := range first.Graph.Initializer {
		if t.parts[c.GetName()] != nil {
			c.RawData, c.FloatData = nil, nil
		}
	}
	return t.parts, first, nil
}

// tracing is what is known of the constants of an optimised model between its readings.
type tracing struct {
	params   model.Params
	numbered []int
	low      map[string][]float32 // values in the first optimisation
	sources  map[string][]int32   // number of each element, or -1 for 0, of the constants that came from weights
	parts    map[string][]run
}

// locate finds the numbers of a constant's elements from its values in the second optimisation.
func (t *tracing) locate(c *onnxpb.TensorProto, high []float32) error {
	low := t.low[c.GetName()]
	delete(t.low, c.GetName())
	if slices.Equal(low, high) {
		return nil
	}
	total := 0
	for _, i := range t.numbered {
		total += len(t.params[i].Data)
	}
	source := make([]int32, len(low))
	for j := range low {
		at := (-int(high[j])-firstNumber)*digits + int(low[j]) - firstNumber
		switch {
		case low[j] == 0 && high[j] == 0:
			at = -1
		case at < 0 || at >= total || numbers[0](at) != low[j] || numbers[1](at) != high[j]:
			return computed(c)
		}
		source[j] = int32(at)
	}
	t.sources[c.GetName()] = source
	return nil
}

// check compares a constant with what its sources are in the third optimisation, and lists its runs.
func (t *tracing) check(c *onnxpb.TensorProto, random []float32) error {
	source := t.sources[c.GetName()]
	delete(t.sources, c.GetName())
	if source == nil {
		return nil
	}
	b := builder{}
	k, before := 0, 0 // a parameter, and the elements of those in front of it
	for j, at := range source {
		if at < 0 && random[j] != 0 || at >= 0 && random[j] != numbers[2](int(at)) {
			return computed(c)
		}
		if at < 0 {
			continue
		}
		for int(at) < before {
			k--
			before -= len(t.params[t.numbered[k]].Data)
		}
		for int(at) >= before+len(t.params[t.numbered[k]].Data) {
			before += len(t.params[t.numbered[k]].Data)
			k++
		}
		b.add(j, t.numbered[k], int(at)-before)
	}
	if t.parts == nil {
		t.parts = map[string][]run{}
	}
	t.parts[c.GetName()] = b.runs
	return nil
}

func computed(t *onnxpb.TensorProto) error {
	return &untraceable{"the library computes constant " + t.GetName() + " from weights when it loads the model"}
}

// optimise gives the optimised model for the weights of one of numbers.
func optimise(rt *ort.Runtime, m *onnxpb.ModelProto, p model.Params, numbered []int, which int, opt ort.SessionOptions) (*onnxpb.ModelProto, error) {
	m = shallow(m)
	at := 0
	for _, i := range numbered {
		raw := make([]byte, 0, 4*len(p[i].Data))
		for range p[i].Data {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(numbers[which](at)))
			at++
		}
		for k, t := range m.Graph.Initializer {
			if t.GetName() == p[i].Name {
				m.Graph.Initializer[k] = &onnxpb.TensorProto{Name: t.GetName(), DataType: ir.Float32, Dims: t.GetDims(), RawData: raw}
			}
		}
	}
	data, err := ir.Marshal(m)
	if err != nil {
		return nil, err
	}
	size := len(data)
	m = nil
	if data, err = rt.Optimize(data, opt); err != nil {
		return nil, err
	}
	tidy(size)
	return ir.Load(data)
}

// tidy gives memory back that copies of a large model leave behind: by itself the collector would let as much again pile up.
func tidy(size int) {
	const large = 64 << 20
	if size >= large {
		debug.FreeOSMemory()
	}
}

// shallow copies a model as far as the lists of its graph; what they hold is shared.
func shallow(m *onnxpb.ModelProto) *onnxpb.ModelProto {
	g := m.Graph
	return &onnxpb.ModelProto{
		IrVersion: m.IrVersion, OpsetImport: m.OpsetImport, ProducerName: m.ProducerName, ProducerVersion: m.ProducerVersion,
		Domain: m.Domain, ModelVersion: m.ModelVersion, DocString: m.DocString, MetadataProps: m.MetadataProps, Functions: m.Functions,
		Graph: &onnxpb.GraphProto{
			Name: g.Name, DocString: g.DocString, Node: slices.Clone(g.Node), Initializer: slices.Clone(g.Initializer),
			SparseInitializer: g.SparseInitializer, Input: slices.Clone(g.Input), Output: slices.Clone(g.Output),
			ValueInfo: g.ValueInfo, QuantizationAnnotation: g.QuantizationAnnotation, MetadataProps: g.MetadataProps,
		},
	}
}

// content lists the nodes of a model, without their names, and the names and types of its constants, in an order of its
// own: two optimised models with equal content differ in the values of their constants only, and in the order and names
// of nodes, which the library chooses by addresses in memory.
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
