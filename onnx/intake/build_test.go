package intake

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/score"
)

// net is a model as others write it, in the making.
type net struct {
	testing.TB
	m    *onnxpb.ModelProto
	g    *ir.Graph
	elem int32 // of the weights
	seed int
}

func newNet(t testing.TB, opset int64) *net {
	m := ir.NewModel("theirs", 8, opset)
	g, err := ir.NewGraph(m)
	must(t, err)
	return &net{TB: t, m: m, g: g, elem: ir.Float32}
}

// input declares an input; 0 is a free axis.
func (b *net) input(name string, elem int32, dims ...int64) string {
	must(b, b.g.Input(name, elem, dimensions(dims)...))
	return name
}

// dimensions gives names to the axes that are 0.
func dimensions(dims []int64) []ir.Dim {
	out := ir.FixedDims(dims...)
	for i, d := range dims {
		if d == 0 {
			out[i] = ir.Free([]string{"batch", "b", "c", "d"}[i])
		}
	}
	return out
}

// op adds a node whose only output and name are given.
func (b *net) op(name, op string, inputs []string, attrs ...*onnxpb.AttributeProto) string {
	b.g.AddNamed(name, op, inputs, []string{name}, attrs...)
	return name
}

func (b *net) then(op, input string, attrs ...*onnxpb.AttributeProto) string {
	return b.op(b.g.Unique(op), op, []string{input}, attrs...)
}

// weight adds a constant with values of about the size that training leaves.
func (b *net) weight(name string, dims ...int64) string {
	n, _ := ir.Elements(dims)
	fan := math.Sqrt(float64(n) / float64(dims[0]))
	if len(dims) == 2 {
		fan = math.Sqrt(float64(dims[0]))
	}
	b.seed++
	values := make([]float64, n)
	for i := range values {
		values[i] = 1.5 * math.Sin(float64(7*b.seed+1)+float64(i)*float64(i+3*b.seed)*0.37) / fan
	}
	b.constant(name, values, dims...)
	return name
}

// constant adds a constant of the element type of the net.
func (b *net) constant(name string, values []float64, dims ...int64) string {
	t := ir.Float64Tensor(name, dims, values)
	switch b.elem {
	case ir.Float64:
	case ir.Float32:
		single := make([]float32, len(values))
		for i, v := range values {
			single[i] = float32(v)
		}
		t = ir.Float32Tensor(name, dims, single)
	default:
		t = &onnxpb.TensorProto{Name: name, DataType: b.elem, Dims: dims}
		for _, v := range values {
			scalar, err := ir.ScalarTensor("", b.elem, v)
			must(b, err)
			t.RawData = append(t.RawData, scalar.RawData...)
		}
	}
	must(b, b.g.Initializer(t))
	return name
}

func (b *net) ints(name string, values ...int64) string {
	must(b, b.g.Initializer(ir.Int64Tensor(name, values...)))
	return name
}

func (b *net) output(name string, dims ...int64) {
	b.g.Output(name, b.elem, dimensions(dims)...)
}

// dense adds a layer with weights [in, out].
func (b *net) dense(name, input string, in, out int64) string {
	product := b.op(name+"_product", "MatMul", []string{input, b.weight(name+"_weight", in, out)})
	return b.op(name, "Add", []string{product, b.weight(name+"_bias", out)})
}

// mlp is tanh(x A + a) B + b, with the values hidden and z.
func (b *net) mlp(x string, in, out int64) string {
	b.op("hidden", "Tanh", []string{b.dense("first", x, in, 6)})
	return b.dense("z", "hidden", 6, out)
}

// rows are raw samples that no two are alike.
func rows(n, width int) []float32 {
	x := make([]float32, n*width)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)*1.7 + float64(i/width)))
	}
	return x
}

// bytes are rows of whole numbers of pixels.
func bytes(n, width int) []float32 {
	x := rows(n, width)
	for i := range x {
		x[i] = float32(math.Round(127 + 120*float64(x[i])))
	}
	return x
}

// reference runs a model as it came, which takes samples of a shape, on rows that are arranged as it wants them, and gives a value of it as float32.
func reference(t testing.TB, m *onnxpb.ModelProto, sample []int, value string, x []float32, n int) result {
	t.Helper()
	m = ir.Clone(m)
	must(t, ir.Inline(m))
	ir.FreeInitializers(m)
	if ir.Opset(m) == 0 {
		m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Version: 17})
	}
	batch := 1
	if _, dims, _ := ir.TensorType(m.Graph.Input[0]); dims[0].Set {
		batch = int(dims[0].Size)
	}
	shape := append([]int64{int64(batch)}, sizes(sample)...)
	feed(t, m, value, shape)
	data, err := ir.Marshal(m)
	must(t, err)
	s, err := runtimetest.Open(t).Session(data, ort.SessionOptions{Threads: 1})
	must(t, err)
	defer s.Close()
	call, err := s.Bind([]string{"given"}, []string{"wanted"})
	must(t, err)
	var r result
	width := len(x) / n
	for at := 0; at < n; at += batch {
		part := make([]float32, batch*width)
		for i := range batch {
			copy(part[i*width:], x[min(at+i, n-1)*width:][:width])
		}
		in, err := ort.Float32(shape, part)
		must(t, err)
		out := []*ort.Tensor{nil}
		must(t, call.Run(context.Background(), []*ort.Tensor{in}, out))
		r.width = len(out[0].Data()) / batch
		r.values = append(r.values, out[0].Data()[:min(batch, n-at)*r.width]...)
		out[0].Close()
		in.Close()
	}
	return r
}

// feed gives a model the float32 input given in place of its own, and a value of it as the float32 output wanted.
func feed(t testing.TB, m *onnxpb.ModelProto, value string, shape []int64) {
	t.Helper()
	g, err := ir.NewGraph(m)
	must(t, err)
	in := m.Graph.Input[0]
	elem, _, _ := ir.TensorType(in)
	m.Graph.Input, m.Graph.Output, m.Graph.ValueInfo = nil, nil, nil
	must(t, g.Input("given", ir.Float32, ir.FixedDims(shape...)...))
	nodes := m.Graph.Node
	m.Graph.Node = nil
	given := g.Add("Cast", []string{"given"}, ir.Int("to", int64(elem)))
	m.Graph.Node = append(m.Graph.Node, nodes...)
	g.Redirect(in.GetName(), given)
	if value == in.GetName() {
		value = given
	}
	g.AddNamed("wanted", "Cast", []string{value}, []string{"wanted"}, ir.Int("to", int64(ir.Float32)))
	g.Output("wanted", ir.Float32, ir.Dim{})
	m.Graph.Output[0].Type.GetTensorType().Shape = nil
	ir.Prune(m)
}

// theirs is a model of others and what must be made of it.
type theirs struct {
	name  string
	opset int64 // 0: 17
	build func(b *net)
	cfg   Config
	shape []int // of a raw sample
	x     []float32
	// file is the sample that the file takes for a raw one; nil: the raw one.
	file func(raw []float32) []float32

	value  string                            // of the file, that logits are made of; empty: z
	logits func(row []float32) []float32     // of a row of value; nil: the row
	change func(m *onnxpb.ModelProto)        // the model before it is taken in
	verify func(t *testing.T, c *Classifier) // more to look at

	classes, features, batch int
	hidden                   string // value of the file with the features
	head                     bool
	energy, from, note       string
	names                    []string
	noGradient               string
	err                      string // part of the error; then nothing else counts
}

const probeRows = 10

func (c *theirs) run(t *testing.T) {
	rt := runtimetest.Open(t)
	if c.opset == 0 {
		c.opset = 17
	}
	b := newNet(t, c.opset)
	c.build(b)
	if c.change != nil {
		c.change(b.m)
	}
	cfg, width := c.cfg, size(c.shape)
	cfg.Preprocess.SampleShape = c.shape
	x := c.x
	if x == nil {
		x = rows(probeRows, width)
	}
	got, err := c.open(t, rt, b.m, cfg, x)
	if c.err != "" {
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Fatalf("error %v, want one with %q", err, c.err)
		}
		return
	}
	must(t, err)
	c.found(t, got)
	c.same(t, b.m, got, x)
	c.gradient(t, got, x)
	if c.verify != nil {
		c.verify(t, got)
	}
}

// open takes the model in by way of a file.
func (c *theirs) open(t *testing.T, rt *ort.Runtime, m *onnxpb.ModelProto, cfg Config, x []float32) (*Classifier, error) {
	path := write(t, m)
	return Open(context.Background(), rt, path, cfg, x)
}

func (c *theirs) found(t *testing.T, got *Classifier) {
	t.Helper()
	if got.Classes != c.classes || got.Features != c.features || got.Batch != c.batch || got.EnergyReason != c.energy ||
		strings.Join(got.Names, " ") != strings.Join(c.names, " ") || (got.Head != nil) != c.head {
		t.Errorf("classes %d, features %d, batch %d, energy %q, names %q, head %v", got.Classes, got.Features, got.Batch, got.EnergyReason, got.Names, got.Head != nil)
	}
	if !strings.Contains(got.From, c.from) {
		t.Errorf("logits are from %q, want %q", got.From, c.from)
	}
	if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, c.note) || (notes != "") != (c.note != "") {
		t.Errorf("notes %q, want %q", notes, c.note)
	}
}

// same compares logits, energy and features with what the file gives, in one batch and row by row.
func (c *theirs) same(t *testing.T, m *onnxpb.ModelProto, got *Classifier, x []float32) {
	width := size(c.shape)
	n := len(x) / width
	names, want := c.wanted(t, m, got, x)
	s := session(t, got)
	batch := n
	if got.Batch > 0 {
		batch = got.Batch
	}
	for _, batch := range []int{batch, max(1, got.Batch)} {
		found := make([]result, len(names))
		for at := 0; at+batch <= n; at += batch {
			for i, out := range outputs(t, s, names, x[at*width:], batch, c.shape) {
				found[i].values = append(found[i].values, out...)
			}
		}
		for i, name := range names {
			w := want[name]
			w.values = w.values[:len(found[i].values)]
			if _, d := furthest(found[i], w); !(d <= 2e-5) && !(c.half(m) && d < 2e-3) {
				t.Errorf("%s in batches of %d differ by %g:\n%v\n%v", name, batch, d, found[i].values, w.values)
			}
		}
	}
	if got.Head != nil {
		got.Head.check(t, want["features"], want["logits"], c.half(m))
	}
}

// wanted are the outputs that there must be, and their values by what the file gives.
func (c *theirs) wanted(t *testing.T, m *onnxpb.ModelProto, got *Classifier, x []float32) (names []string, want map[string]result) {
	width := size(c.shape)
	n := len(x) / width
	file := make([]float32, 0, len(x))
	for r := range n {
		row := x[r*width : (r+1)*width]
		if c.file != nil {
			row = c.file(row)
		}
		file = append(file, row...)
	}
	value := c.value
	if value == "" {
		value = "z"
	}
	answer := reference(t, m, got.Input, value, file, n)
	logits, energy := result{width: got.Classes}, result{width: 1}
	for r := range n {
		z := answer.values[r*answer.width : (r+1)*answer.width]
		if c.logits != nil {
			z = c.logits(z)
		}
		logits.values, energy.values = append(logits.values, z...), append(energy.values, float32(-score.LogSumExp(z)))
	}
	names, want = []string{"logits"}, map[string]result{"logits": logits, "energy": energy}
	if c.energy == "" {
		names = append(names, "energy")
	}
	if c.features > 0 {
		names, want["features"] = append(names, "features"), reference(t, m, got.Input, c.hidden, file, n)
	}
	return names, want
}

// half says whether the model computes with 16 bits.
func (c *theirs) half(m *onnxpb.ModelProto) bool {
	elem, _, _ := ir.TensorType(m.Graph.Output[0])
	return elem == int32(onnxpb.TensorProto_FLOAT16)
}

// check computes the logits from the features.
func (h *Head) check(t *testing.T, features, logits result, half bool) {
	t.Helper()
	got := result{width: logits.width}
	for r := range len(logits.values) / logits.width {
		f := features.values[r*features.width : (r+1)*features.width]
		if h.Outputs == 1 && logits.width == 2 {
			got.values = append(got.values, 0)
		}
		for o := range h.Outputs {
			z := float64(h.Bias[o])
			for i, v := range f {
				z += float64(h.Weight[o*h.In+i]) * float64(v)
			}
			got.values = append(got.values, float32(z))
		}
	}
	if _, d := furthest(got, logits); !(d <= 1e-5) && !(half && d < 2e-3) {
		t.Errorf("the head gives other logits: they differ by %g", d)
	}
}

// gradient runs the self-test on the gradient, in model space and for raw samples, or looks for the reason why not.
func (c *theirs) gradient(t *testing.T, got *Classifier, x []float32) {
	for _, raw := range []bool{false, true} {
		if raw && got.Space == lower.InputX { // raw samples are in model space
			return
		}
		with := *got
		with.Model = ir.Clone(got.Model)
		err := with.AddScore(lower.Energy, raw)
		if c.noGradient != "" {
			if err == nil || !strings.Contains(err.Error(), c.noGradient) {
				t.Errorf("gradient: error %v, want one with %q", err, c.noGradient)
			}
			return
		}
		must(t, err)
		s := session(t, &with)
		g, err := with.TestGraph(s, lower.Energy, raw)
		must(t, err)
		if report, err := g.Run(context.Background(), x, 1); err != nil {
			t.Errorf("%v; %+v", err, report)
		}
	}
}
