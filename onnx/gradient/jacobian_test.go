package gradient

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// jacobianCase is one operator on inputs of some shapes. checkJacobian compares the gradient of sum(y r), for a random
// constant r, with central differences of the operator run by ONNX Runtime, for every element of every input.
type jacobianCase struct {
	op     string
	name   string // what is special about the case
	shapes [][]int64
	attrs  []*onnxpb.AttributeProto
	ints   [][]int64 // integer constants behind the inputs; nil leaves one out
	opset  int64     // 0: 17
	wrt    []int     // inputs to differentiate; nil: all
	static bool      // the rule needs the shapes in the file
	single bool      // ONNX Runtime's CPU provider has the operator, or its gradient, in float32 only
	draw   func(*rand.Rand) float64
	dims   [][]int64 // shapes stated in the file in the static variant where they differ: -1 is free
	consts bool      // inputs that are not differentiated are initializers

	// args are the node's inputs in order, where they are not the float inputs x0, x1, ... followed by the integer
	// constants ints0, ints1, ...: names of these and of tensors; "" leaves one out.
	args    []string
	tensors []*onnxpb.TensorProto // further constants, by their names

	// build adds nodes that end in a value y, where the case is not one node op(args) with one output.
	build func(g *ir.Graph, args []string)
}

// spread draws from [-2, 2], at least 0.1 away from 0, where some operators have a kink or a pole.
func spread(rng *rand.Rand) float64 {
	v := 0.1 + 1.9*rng.Float64()
	if rng.IntN(2) == 0 {
		return -v
	}
	return v
}

// steady draws from [-2, 2], at least 0.5 away from 0, where 1/x bends too much for finite differences.
func steady(rng *rand.Rand) float64 { return math.Copysign(0.5+1.5*rng.Float64(), spread(rng)) }

// positive draws from [0.5, 2.5].
func positive(rng *rand.Rand) float64 { return 0.5 + 2*rng.Float64() }

const (
	gridStep   = 0x1p-10 // inputs are multiples of it, so that inputs and steps are exact in float32
	doubleStep = 0x1p-12
	singleStep = 0x1p-4
)

// tested counts the cases that were run, by operator.
var tested = map[string]int{}

// TestMain fails a full run in which a rule was not compared with a numeric Jacobian, or in which the page of operators
// turned out to be out of date.
func TestMain(m *testing.M) {
	code := m.Run()
	full := flag.Lookup("test.count").Value.String() == "1"
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz", "test.bench"} {
		full = full && flag.Lookup(name).Value.String() == ""
	}
	full = full && len(tested) > 0
	if code == 0 && full {
		for _, op := range Standard().Operators() {
			if tested[op] == 0 {
				fmt.Printf("no Jacobian case for %s\n", op)
				code = 1
			}
		}
	}
	if code == 0 {
		if err := checkPage(full); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

func checkJacobian(t *testing.T, cases ...jacobianCase) {
	t.Helper()
	r := runtimetest.Open(t)
	for _, k := range cases {
		tested[k.op]++
		shape := k.outputShape(t, r)
		for _, free := range []bool{false, true} {
			if free && k.static {
				continue
			}
			for _, ones := range []bool{false, true} {
				if free && ones {
					continue
				}
				name := fmt.Sprintf("%s/%s%v/free=%v/ones=%v", k.op, k.name, k.shapes, free, ones)
				t.Run(name, func(t *testing.T) { k.check(t, r, shape, free, ones) })
			}
		}
	}
}

func (k jacobianCase) inputs(rng *rand.Rand) [][]float32 {
	draw := k.draw
	if draw == nil {
		draw = spread
	}
	out := make([][]float32, len(k.shapes))
	for i, shape := range k.shapes {
		out[i] = make([]float32, count(shape))
		for j := range out[i] {
			out[i][j] = float32(math.Round(draw(rng)/gridStep) * gridStep)
		}
	}
	return out
}

func count(shape []int64) int {
	n := 1
	for _, d := range shape {
		n *= int(d)
	}
	return n
}

func (k jacobianCase) wanted() []int {
	if k.wrt != nil {
		return k.wrt
	}
	all := make([]int, len(k.shapes))
	for i := range all {
		all[i] = i
	}
	return all
}

// model builds y = op(inputs). In double precision the inputs are still fed as float32, which holds them exactly.
func (k jacobianCase) model(t *testing.T, free bool, values [][]float32) *ir.Graph {
	t.Helper()
	opset := k.opset
	if opset == 0 {
		opset = 17
	}
	m := ir.NewModel("jacobian", 8, opset)
	g, err := ir.NewGraph(m)
	must(t, err)
	var names []string
	for i, shape := range k.shapes {
		name := fmt.Sprintf("x%d", i)
		if k.consts && !contains(k.wanted(), i) {
			must(t, g.Initializer(ir.Float32Tensor(name, shape, values[i])))
			names = append(names, name)
			continue
		}
		must(t, g.Input("in_"+name, ir.Float32, k.stated(i, free)...))
		cast := ir.Float64
		if k.single {
			cast = ir.Float32
		}
		g.AddNamed("cast_"+name, "Cast", []string{"in_" + name}, []string{name}, ir.Int("to", int64(cast)))
		names = append(names, name)
	}
	for i, v := range k.ints {
		if v == nil {
			names = append(names, "")
			continue
		}
		name := fmt.Sprintf("ints%d", i)
		must(t, g.Initializer(ir.Int64Tensor(name, v...)))
		names = append(names, name)
	}
	for _, c := range k.tensors {
		must(t, g.Initializer(c))
	}
	if k.args != nil {
		names = k.args
	}
	if k.build != nil {
		k.build(g, names)
		return g
	}
	g.AddNamed("the_node", k.op, names, []string{"y"}, k.attrs...)
	return g
}

func (k jacobianCase) stated(i int, free bool) []ir.Dim {
	if free {
		return make([]ir.Dim, len(k.shapes[i]))
	}
	if k.dims == nil {
		return ir.FixedDims(k.shapes[i]...)
	}
	shape := ir.FixedDims(k.dims[i]...)
	for j, d := range shape {
		if d.Size < 0 {
			shape[j] = ir.Free("N")
		}
	}
	return shape
}

func contains(list []int, v int) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (k jacobianCase) check(t *testing.T, r *ort.Runtime, shape []int64, free, ones bool) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	x := k.inputs(rng)
	loss := k.losses(t, r, shape, free, ones, x, rng)
	step, tol := doubleStep, 2e-6
	if k.single {
		step, tol = singleStep, 2e-3
	}
	for _, i := range k.wanted() {
		got := loss.grads[i]
		if len(got) != len(x[i]) {
			t.Fatalf("input %d: the gradient has %d elements, the input %d", i, len(got), len(x[i]))
		}
		for j := range x[i] {
			off := func(want float64) bool {
				d := math.Abs(float64(got[j]) - want)
				return !(d <= tol*(1+math.Abs(want)))
			}
			want := loss.slope(t, x, i, j, step)
			if off(want) {
				// Where the function bends much within a step, differences of two step sizes together leave out the
				// third derivative: L. F. Richardson, 1911.
				want = (4*loss.slope(t, x, i, j, step/2) - want) / 3
			}
			if off(want) {
				t.Errorf("input %d, element %d: gradient %v, numeric %v", i, j, got[j], want)
			}
		}
	}
}

// slope is the central difference of the loss in one element of an input.
func (l numericLoss) slope(t *testing.T, x [][]float32, input, element int, step float64) float64 {
	t.Helper()
	at := &x[input][element]
	was := *at
	*at = was + float32(step)
	up := l.at(t, x)
	*at = was - float32(step)
	down := l.at(t, x)
	*at = was
	return (up - down) / (2 * step)
}

// numericLoss evaluates sum(y r) to about 48 bits.
type numericLoss struct {
	call   *ort.Call
	fed    []int // which of the inputs are graph inputs
	shapes [][]int64
	r      *ort.Tensor
	grads  map[int][]float32
}

// losses builds the loss and its gradients, runs the gradients once, and gives the loss as a function of the inputs.
func (k jacobianCase) losses(t *testing.T, r *ort.Runtime, shape []int64, free, ones bool, x [][]float32, rng *rand.Rand) numericLoss {
	t.Helper()
	g := k.model(t, free, x)
	elem := ir.Float64
	if k.single {
		elem = ir.Float32
	}
	stated := ir.FixedDims(shape...)
	if free || k.dims != nil {
		stated = make([]ir.Dim, len(shape))
	}
	must(t, g.Input("in_r", ir.Float32, stated...))
	g.AddNamed("cast_r", "Cast", []string{"in_r"}, []string{"r"}, ir.Int("to", int64(elem)))
	g.AddNamed("weighted", "Mul", []string{"y", "r"}, []string{"yr"})
	of := "loss"
	if ones {
		of = "y"
	}
	g.AddNamed("total", "ReduceSum", []string{"yr"}, []string{"loss"}, ir.Int("keepdims", 0))
	var wrt []string
	for _, i := range k.wanted() {
		wrt = append(wrt, fmt.Sprintf("x%d", i))
	}
	grads, err := Gradient(g.Model, of, wrt)
	must(t, err)
	g, err = ir.NewGraph(g.Model)
	must(t, err)
	outs := k.outputs(g, wrt, grads)
	must(t, ir.Check(g.Model))

	l := numericLoss{shapes: k.shapes, grads: map[int][]float32{}}
	names := []string{}
	for i := range k.shapes {
		if !(k.consts && !contains(k.wanted(), i)) {
			l.fed = append(l.fed, i)
			names = append(names, fmt.Sprintf("in_x%d", i))
		}
	}
	weights := make([]float32, count(shape))
	for i := range weights {
		weights[i] = 1
		if !ones {
			weights[i] = float32(math.Round(spread(rng)/gridStep) * gridStep)
		}
	}
	l.r, err = ort.Float32(shape, weights)
	must(t, err)
	t.Cleanup(l.r.Close)
	s := session(t, r, g.Model)
	all, err := s.Bind(append(names, "in_r"), outs)
	must(t, err)
	for n, values := range l.run(t, all, x, len(outs)) {
		l.grads[k.wanted()[n]] = values
	}
	l.call, err = s.Bind(append(names, "in_r"), []string{"hi", "lo"})
	must(t, err)
	return l
}

// outputs adds the loss as the sum of two float32 outputs, and the gradients as float32 outputs.
func (k jacobianCase) outputs(g *ir.Graph, wrt, grads []string) []string {
	single, double := ir.Int("to", int64(ir.Float32)), ir.Int("to", int64(ir.Float64))
	wide := g.Add("Cast", []string{"loss"}, double)
	g.AddNamed("hi", "Cast", []string{wide}, []string{"hi"}, single)
	rest := g.Add("Sub", []string{wide, g.Add("Cast", []string{"hi"}, double)})
	g.AddNamed("lo", "Cast", []string{rest}, []string{"lo"}, single)
	g.Output("hi", ir.Float32)
	g.Output("lo", ir.Float32)
	var outs []string
	for i, name := range grads {
		out := "d_" + wrt[i]
		g.AddNamed(out, "Cast", []string{name}, []string{out}, single)
		// The declared output shape makes ONNX Runtime's own inference contradict a wrong one.
		g.Output(out, ir.Float32, make([]ir.Dim, len(k.shapes[k.wanted()[i]]))...)
		outs = append(outs, out)
	}
	return outs
}

// outputShape follows from the shapes of the inputs, else from a run.
func (k jacobianCase) outputShape(t *testing.T, r *ort.Runtime) []int64 {
	t.Helper()
	x := k.inputs(rand.New(rand.NewPCG(1, 1)))
	if shape, ok := newTyping(k.model(t, false, x).Model, Standard()).types["y"].Static(); ok {
		return shape
	}
	g := k.model(t, true, x)
	g.AddNamed("y32", "Cast", []string{"y"}, []string{"y32"}, ir.Int("to", int64(ir.Float32)))
	g.Model.Graph.Output = append(g.Model.Graph.Output, &onnxpb.ValueInfoProto{Name: "y32", Type: &onnxpb.TypeProto{
		Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: ir.Float32}}}})
	s := session(t, r, g.Model)
	in := feed(t, s, k.shapes, x)
	out := []*ort.Tensor{nil}
	must(t, s.Run(context.Background(), in, out))
	defer out[0].Close()
	return out[0].Shape()
}

func session(t *testing.T, r *ort.Runtime, m *onnxpb.ModelProto) *ort.Session {
	t.Helper()
	data, err := ir.Marshal(m)
	must(t, err)
	s, err := r.Session(data, ort.SessionOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func feed(t *testing.T, s *ort.Session, shapes [][]int64, x [][]float32) []*ort.Tensor {
	t.Helper()
	in := make([]*ort.Tensor, len(s.Inputs()))
	for i, v := range s.Inputs() {
		var n int
		_, err := fmt.Sscanf(v.Name, "in_x%d", &n)
		must(t, err)
		in[i], err = ort.Float32(shapes[n], x[n])
		must(t, err)
		t.Cleanup(in[i].Close)
	}
	return in
}

func (l numericLoss) run(t *testing.T, call *ort.Call, x [][]float32, outs int) [][]float32 {
	t.Helper()
	var in []*ort.Tensor
	for _, i := range l.fed {
		v, err := ort.Float32(l.shapes[i], x[i])
		must(t, err)
		defer v.Close()
		in = append(in, v)
	}
	out := make([]*ort.Tensor, outs)
	must(t, call.Run(context.Background(), append(in, l.r), out))
	values := make([][]float32, outs)
	for i, v := range out {
		values[i] = append([]float32{}, v.Data()...)
		v.Close()
	}
	return values
}

func (l numericLoss) at(t *testing.T, x [][]float32) float64 {
	t.Helper()
	v := l.run(t, l.call, x, 2)
	return float64(v[0][0]) + float64(v[1][0])
}
