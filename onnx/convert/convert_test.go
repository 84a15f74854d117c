package convert

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// draw gives inputs for a model: normal numbers, the same on every call. A free dimension has size 3.
func draw(s *ort.Session, shape []int64) (shapes [][]int64, values [][]float32) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, v := range s.Inputs() {
		dims := slices.Clone(v.Shape)
		n := int64(1)
		for i, d := range dims {
			if d < 0 {
				dims[i] = 3
			}
		}
		if shape != nil {
			dims = shape
		}
		for _, d := range dims {
			n *= d
		}
		data := make([]float32, n)
		for i := range data {
			data[i] = float32(rng.NormFloat64())
		}
		shapes, values = append(shapes, dims), append(values, data)
	}
	return shapes, values
}

type result struct {
	shape []int64
	data  []float32
}

// run gives all float outputs of a model for drawn inputs of a shape, or of the declared ones.
func run(t *testing.T, m *onnxpb.ModelProto, shape []int64) ([]result, error) {
	t.Helper()
	data, err := ir.Marshal(m)
	must(t, err)
	s, err := runtimetest.Open(t).Session(data, ort.SessionOptions{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	shapes, values := draw(s, shape)
	in := make([]*ort.Tensor, len(values))
	var names, outs []string
	for i, v := range s.Inputs() {
		in[i], err = ort.Float32(shapes[i], values[i])
		must(t, err)
		defer in[i].Close()
		names = append(names, v.Name)
	}
	for _, v := range s.Outputs() {
		if v.Type == "float32" {
			outs = append(outs, v.Name)
		}
	}
	if len(outs) == 0 {
		t.Skip("no output is a float32 tensor")
	}
	call, err := s.Bind(names, outs)
	must(t, err)
	out := make([]*ort.Tensor, len(outs))
	if err := call.Run(context.Background(), in, out); err != nil {
		return nil, err
	}
	var got []result
	for _, o := range out {
		got = append(got, result{o.Shape(), slices.Clone(o.Data())})
		o.Close()
	}
	return got, nil
}

// compare says where two results differ by more than a tolerance, relative above 1. 0 wants the same bits.
func compare(got, want []result, tolerance float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d outputs, want %d", len(got), len(want))
	}
	for i := range got {
		if !slices.Equal(got[i].shape, want[i].shape) {
			return fmt.Errorf("output %d has shape %v, want %v", i, got[i].shape, want[i].shape)
		}
		for j, a := range got[i].data {
			b := want[i].data[j]
			if math.Float32bits(a) == math.Float32bits(b) {
				continue
			}
			if d := math.Abs(float64(a - b)); !(d <= tolerance*max(1, math.Abs(float64(b)))) {
				return fmt.Errorf("output %d, value %d: %v, want %v", i, j, a, b)
			}
		}
	}
	return nil
}

// builder makes the graph of a case around the input x and the output y.
type builder struct {
	*testing.T
	*ir.Graph
}

// floats and ints are constants.
func (b builder) floats(shape []int64, v ...float32) string {
	name, err := b.Constant(ir.Float32Tensor("c", shape, v))
	must(b.T, err)
	return name
}

func (b builder) ints(v ...int64) string {
	name, err := b.Constant(ir.Int64Tensor("i", v...))
	must(b.T, err)
	return name
}

// y adds the node that gives the output.
func (b builder) y(op string, inputs []string, attrs ...*onnxpb.AttributeProto) {
	b.AddNamed("n", op, inputs, []string{"y"}, attrs...)
}

func floatList(name string, v ...float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOATS, Floats: v}
}

// raiseCase is a model of one operator in an old form.
type raiseCase struct {
	name      string
	from      int64
	shape     []int64
	free      bool    // the model states no shape of x
	tolerance float64 // 0: the same bits
	last      int64   // newest operator set for which ONNX Runtime has the operator; 0: all
	build     func(b builder)
	op        string // the form that the raised model has, as text of its nodes; empty: not looked at
}

func (c raiseCase) model(t *testing.T) *onnxpb.ModelProto {
	m := ir.NewModel("test", max(formats[c.from-Oldest], 4), c.from)
	g, err := ir.NewGraph(m)
	must(t, err)
	must(t, g.Input("x", ir.Float32, ir.FixedDims(c.shape...)...))
	if c.free {
		m.Graph.Input[0].Type.GetTensorType().Shape = nil
	}
	c.build(builder{t, g})
	m.Graph.Output = []*onnxpb.ValueInfoProto{{Name: "y", Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: ir.Float32}}}}}
	must(t, ir.Check(m))
	return m
}

// boundaries are the versions that changed an operator, and the newest.
func boundaries() []int64 { return append(slices.Sorted(maps.Keys(adapters)), Newest) }

// Every case computes the same in its own operator set and in those that follow.
func check(t *testing.T, cases ...raiseCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := c.model(t)
			want, err := run(t, m, c.shape)
			must(t, err)
			for _, to := range boundaries() {
				if to <= c.from || c.last > 0 && to > c.last {
					continue
				}
				was := proto.Clone(m)
				raised := ir.Clone(m)
				must(t, Raise(raised, to))
				must(t, ir.Check(raised))
				if !proto.Equal(was, m) || ir.Opset(raised) != to {
					t.Fatalf("operator set %d", ir.Opset(raised))
				}
				got, err := run(t, raised, c.shape)
				if err != nil {
					t.Fatalf("operator set %d: %v\n%s", to, err, ops(raised))
				}
				if err := compare(got, want, c.tolerance); err != nil {
					t.Errorf("operator set %d: %v\n%s", to, err, ops(raised))
				}
				if to == Newest && c.op != "" && ops(raised) != c.op {
					t.Errorf("the raised model is %s, want %s", ops(raised), c.op)
				}
			}
		})
	}
}

// ops lists the operators of the main graph.
func ops(m *onnxpb.ModelProto) string {
	var out []string
	for _, n := range m.Graph.Node {
		out = append(out, n.OpType)
	}
	return strings.Join(out, " ")
}
