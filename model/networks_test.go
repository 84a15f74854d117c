package model

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func stream(i int) *rand.Rand { return rand.New(rand.NewPCG(11, uint64(i))) }

func count(t *testing.T, a Arch) int {
	t.Helper()
	ps, err := a.Params()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range ps {
		n += p.Size()
	}
	return n
}

// The counts are sums over the published table: convolutions k*k*in*out + out, the head in*K + K.
func TestWideResNetParameters(t *testing.T) {
	byHand := func(depth, k, classes int) int {
		conv := func(in, out, side int) int { return side*side*in*out + out }
		n, in := conv(3, 16, 3), 16
		for s, out := range []int{16 * k, 32 * k, 64 * k} {
			for b := range (depth - 4) / 6 {
				n += conv(in, out, 3) + conv(out, out, 3)
				if in != out || s > 0 && b == 0 {
					n += conv(in, out, 1)
				}
				in = out
			}
		}
		return n + in*classes + classes
	}
	for _, c := range []struct{ depth, width int }{{10, 1}, {10, 2}, {16, 4}, {28, 10}} {
		a, err := WideResNet([]int{3, 32, 32}, 10, c.depth, c.width, Style{Act: LeakyReLU})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := count(t, a), byHand(c.depth, c.width, 10); got != want {
			t.Errorf("WRN-%d-%d has %d parameters, want %d", c.depth, c.width, got, want)
		}
	}
}

func TestWideResNet28x10(t *testing.T) {
	a, err := WideResNet([]int{3, 32, 32}, 10, 28, 10, Style{Act: LeakyReLU})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, a); n < 36_400_000 || n > 36_600_000 {
		t.Errorf("%d parameters, published are 36.5 million", n)
	}
	shapes := map[string][]int{}
	convs := 0
	if err := a.Walk(func(l Placed) {
		shapes[l.Path] = l.Out
		if l.Kind == Conv && l.Kernel == 3 {
			convs++
		}
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]int{
		"conv1": {16, 32, 32}, "block1_1.shortcut": {160, 32, 32}, "block1_4.conv2": {160, 32, 32}, "block2_1.conv1": {320, 32, 32},
		"block2_1.conv2": {320, 16, 16}, "block2_1.shortcut": {320, 16, 16}, "block3_4.conv2": {640, 8, 8}, "pool": {640, 1, 1}, "flatten": {640}, "logits": {10},
	} {
		if !reflect.DeepEqual(shapes[name], want) {
			t.Errorf("%s gives %v, want %v", name, shapes[name], want)
		}
	}
	if convs != 25 { // 28 less the dense layer and two shortcuts that stand for layers in the count of the paper
		t.Errorf("%d convolutions of 3x3, want 25", convs)
	}
	if _, ok := shapes["block1_2.shortcut"]; ok {
		t.Error("a block that keeps the shape has a shortcut convolution")
	}
}

func TestNormsOfNetworks(t *testing.T) {
	for _, norm := range Norms {
		s := Style{Act: SiLU, Norm: norm, Groups: 4}
		wrn, err := WideResNet([]int{3, 16, 16}, 5, 10, 1, s)
		if err != nil {
			t.Fatal(norm, err)
		}
		conv, err := Convnet([]int{1, 8, 8}, 5, []int{4, 8}, []int{3}, []int{2}, []int{16}, s)
		if err != nil {
			t.Fatal(norm, err)
		}
		archs := []Arch{wrn, conv}
		if norm != InstanceNorm { // which a vector has none of
			mlp, err := MLP([]int{6}, 5, []int{8, 16}, s)
			if err != nil {
				t.Fatal(norm, err)
			}
			archs = append(archs, mlp)
		}
		for _, a := range archs {
			ps, err := a.Params()
			if err != nil {
				t.Fatal(err)
			}
			scales, states := 0, 0
			for _, p := range ps {
				if p.Role == RoleScale {
					scales++
				}
				if p.State {
					states++
				}
			}
			if scales == 0 || a.BatchNorms() != (norm == BatchNorm) || norm == BatchNorm && states != 2*scales || norm != BatchNorm && states != 0 {
				t.Errorf("%s %s: %d normalisations, %d running statistics, batch norm %v", a.Name, norm, scales, states, a.BatchNorms())
			}
		}
	}
}

// Shapes that do not fit are told with the layer's full name.
func TestBadShapes(t *testing.T) {
	img, vec := []int{2, 6, 6}, []int{6}
	c := func(name string, out, k, s, p int) Layer {
		return Layer{Kind: Conv, Name: name, Out: out, Kernel: k, Stride: s, Pad: p}
	}
	pool := func(k PoolKind, side, s, p int) Layer {
		return Layer{Kind: Pool, Name: "p", Pool: k, Kernel: side, Stride: s, Pad: p}
	}
	norm := func(k NormKind, groups int) Layer { return Layer{Kind: Norm, Name: "n", Norm: k, Groups: groups} }
	block := func(name string, body, short []Layer) Layer {
		return Layer{Kind: Residual, Name: name, Body: body, Shortcut: short}
	}
	deep := c("inner", 2, 1, 1, 0)
	for range maxDepth + 2 {
		deep = block("b", []Layer{deep}, nil)
	}
	for name, c := range map[string]struct {
		in   []int
		l    []Layer
		want string
	}{
		"dense on an image":     {img, []Layer{{Kind: Dense, Name: "d", Out: 3}}, "layer d: dense takes [D], got [2 6 6]: put a flatten"},
		"conv on a vector":      {vec, []Layer{c("c1", 3, 3, 1, 0)}, "layer c1: conv takes [C,H,W], got [6]"},
		"kernel too large":      {img, []Layer{c("c1", 3, 9, 1, 1)}, "layer c1: conv: a kernel of 9 with padding 1 does not fit into 6x6"},
		"no channels":           {img, []Layer{c("c1", 0, 3, 1, 1)}, "layer c1: conv: out 0"},
		"no stride":             {img, []Layer{c("c1", 1, 3, 0, 1)}, "layer c1: conv: kernel 3 and stride 0"},
		"pool on a vector":      {vec, []Layer{pool(MaxPool, 2, 2, 0)}, "layer p: pool takes [C,H,W]"},
		"global on a vector":    {vec, []Layer{pool(GlobalPool, 0, 0, 0)}, "layer p: pool takes [C,H,W]"},
		"global with a kernel":  {img, []Layer{pool(GlobalPool, 2, 0, 0)}, "layer p: pool global takes all positions: kernel 2"},
		"pool too large":        {img, []Layer{pool(AvgPool, 7, 1, 0)}, "layer p: pool: a kernel of 7"},
		"pool padded too much":  {img, []Layer{pool(MaxPool, 2, 2, 2)}, "layer p: pool: pad 2 is more than half of kernel 2"},
		"unknown pool":          {img, []Layer{pool("median", 2, 2, 0)}, `layer p: pool "median" is not one of`},
		"unknown norm":          {img, []Layer{norm("power", 0)}, `layer n: norm "power" is not one of`},
		"groups do not divide":  {img, []Layer{norm(GroupNorm, 3)}, "layer n: norm group: groups 3 must be at least 1 and divide the 2 channels"},
		"no groups":             {img, []Layer{norm(GroupNorm, 0)}, "layer n: norm group: groups 0"},
		"instance of a vector":  {vec, []Layer{norm(InstanceNorm, 0)}, "layer n: norm instance: [6] gives one value a mean"},
		"unknown activation":    {vec, []Layer{{Kind: Act, Name: "a", Func: "sine"}}, `layer a: activation "sine" is not one of`},
		"unknown kind":          {vec, []Layer{{Kind: "dropout", Name: "x"}}, `layer x: layer kind "dropout" is not one of`},
		"same name":             {vec, []Layer{{Kind: Flatten, Name: "x"}, {Kind: Flatten, Name: "x"}}, `layer 1: name "x" must be unique`},
		"no name":               {vec, []Layer{{Kind: Flatten}}, `layer 0: name ""`},
		"same name in a block":  {img, []Layer{block("b", []Layer{c("x", 2, 1, 1, 0)}, []Layer{c("x", 2, 1, 1, 0)})}, `layer 0 of b: name "x" must be unique`},
		"empty body":            {img, []Layer{block("b", nil, nil)}, "layer b: residual: the body is empty"},
		"identity does not fit": {img, []Layer{block("b", []Layer{c("x", 3, 1, 1, 0)}, nil)}, "layer b: residual: the body gives [3 6 6] and the block's input has [2 6 6]: add a shortcut"},
		"shortcut does not fit": {img, []Layer{block("b", []Layer{c("x", 3, 1, 1, 0)}, []Layer{c("s", 3, 1, 2, 0)})}, "layer b: residual: the body gives [3 6 6] and the shortcut has [3 3 3]"},
		"nested":                {img, []Layer{block("block2", []Layer{block("b", []Layer{c("conv1", 2, 9, 1, 0)}, nil)}, nil)}, "layer block2.b.conv1: conv: a kernel of 9"},
		"nested in a shortcut":  {img, []Layer{block("block2", []Layer{c("x", 2, 1, 1, 0)}, []Layer{{Kind: Dense, Name: "s", Out: 2}})}, "layer block2.s: dense takes [D]"},
		"too deep":              {img, []Layer{deep}, "residual blocks lie more than 32 deep"},
		"no logits":             {img, []Layer{c("c1", 3, 1, 1, 0)}, "the last layer gives [3 6 6], want [3]"},
		"bad input":             {[]int{0}, nil, "input shape [0]"},
		"wrong rank":            {[]int{2, 2}, nil, "input shape [2 2]: want [D] or [C,H,W]"},
	} {
		t.Run(name, func(t *testing.T) {
			a := Arch{Name: "m", Input: c.in, Classes: 3, Layers: c.l}
			_, err := a.Params()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestBadNetworks(t *testing.T) {
	wrn := func(in []int, depth, width int, s Style) error {
		_, err := WideResNet(in, 10, depth, width, s)
		return err
	}
	img := []int{3, 32, 32}
	for want, err := range map[string]error{
		"depth 12 is not 6n+4":                          wrn(img, 12, 2, Style{Act: ReLU}),
		"depth 4 is not 6n+4":                           wrn(img, 4, 2, Style{Act: ReLU}),
		"width 0 must be at least 1":                    wrn(img, 10, 0, Style{Act: ReLU}),
		"takes [C,H,W]":                                 wrn([]int{9}, 10, 1, Style{Act: ReLU}),
		"layer block1_1.norm1: norm group: groups 5":    wrn(img, 10, 1, Style{Act: ReLU, Norm: GroupNorm, Groups: 5}),
		`layer block1_1.act1: activation "" is not one`: wrn(img, 10, 1, Style{}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// An architecture that was saved as JSON before layers had these fields.
const saved = `{"name":"convnet","input":[1,8,8],"classes":3,"layers":[
 {"kind":"conv","name":"conv1","out":4,"kernel":3,"stride":2,"pad":1},{"kind":"act","name":"conv1.act","func":"silu"},
 {"kind":"flatten","name":"flatten"},{"kind":"dense","name":"logits","out":3}]}`

func TestArchitecturesAreJSON(t *testing.T) {
	var old Arch
	if err := json.Unmarshal([]byte(saved), &old); err != nil {
		t.Fatal(err)
	}
	now, err := Convnet([]int{1, 8, 8}, 3, []int{4}, []int{3}, []int{2}, nil, Style{Act: SiLU})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(old, now) {
		t.Errorf("a saved convnet is %+v, want %+v", old, now)
	}
	wrn, err := WideResNet([]int{3, 8, 8}, 3, 10, 1, Style{Act: ELU, Norm: GroupNorm, Groups: 2})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(wrn)
	if err != nil {
		t.Fatal(err)
	}
	var back Arch
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, wrn) {
		t.Error("a wide_resnet differs after JSON")
	}
}

// moments gives mean and variance.
func moments(x []float32) (mean, variance float64) {
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	return mean, variance
}

func TestInitializers(t *testing.T) {
	a := Arch{Name: "m", Input: []int{8, 5, 5}, Classes: 40, Layers: []Layer{
		{Kind: Conv, Name: "c", Out: 60, Kernel: 5, Stride: 1}, {Kind: Norm, Name: "n", Norm: BatchNorm}, {Kind: Flatten, Name: "f"}, {Kind: Dense, Name: "d", Out: 40}}}
	const convIn, convOut, denseIn, denseOut = 200, 1500, 60, 40
	for how, want := range map[Initializer][2]float64{ // variances of c.weight and d.weight
		FanInUniform:  {1. / 3 / convIn, 1. / 3 / denseIn},
		HeNormal:      {2. / convIn, 2. / denseIn},
		HeUniform:     {2. / convIn, 2. / denseIn},
		XavierUniform: {2. / (convIn + convOut), 2. / (denseIn + denseOut)},
		XavierNormal:  {2. / (convIn + convOut), 2. / (denseIn + denseOut)},
		Orthogonal:    {1. / convIn, 1. / denseIn},
	} {
		p, err := a.InitWith(how, stream)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(a); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"c.weight", "d.weight"} {
			w, _ := p.Lookup(name)
			mean, variance := moments(w.Data)
			n := float64(len(w.Data))
			if math.Abs(variance/want[i]-1) > 6/math.Sqrt(n) || math.Abs(mean) > 5*math.Sqrt(want[i]/n) {
				t.Errorf("%s: %s has mean %g and variance %g, want 0 and %g", how, name, mean, variance, want[i])
			}
			bound := 0.0
			for _, v := range w.Data {
				bound = math.Max(bound, math.Abs(float64(v)))
			}
			if uniform := bound <= math.Sqrt(3*want[i])*1.000001; uniform != (how == FanInUniform || how == HeUniform || how == XavierUniform) {
				t.Errorf("%s: the largest of %s is %g, standard deviation %g", how, name, bound, math.Sqrt(want[i]))
			}
		}
		for name, want := range map[string]float32{"n.weight": 1, "n.bias": 0, "n.running_mean": 0, "n.running_var": 1} {
			v, _ := p.Lookup(name)
			for _, x := range v.Data {
				if x != want {
					t.Fatalf("%s: %s begins at %v, want %v", how, name, x, want)
				}
			}
		}
		b, _ := p.Lookup("c.bias")
		if _, variance := moments(b.Data); (variance > 0) != (how == FanInUniform) {
			t.Errorf("%s: variance of the bias is %g", how, variance)
		}
	}
	if _, err := a.InitWith("ones", stream); err == nil || !strings.Contains(err.Error(), `"ones" is not one of`) {
		t.Errorf("unknown initialiser: %v", err)
	}
}

// The rows, or where those are more the columns, of an orthogonal weight are orthonormal.
func TestOrthogonal(t *testing.T) {
	for _, s := range []Param{{Shape: []int{5, 3, 2, 2}, FanIn: 12}, {Shape: []int{30, 3, 2, 2}, FanIn: 12}, {Shape: []int{9, 4}, FanIn: 9}, {Shape: []int{4, 9}, FanIn: 4}} {
		data := make([]float32, s.Size())
		orthogonal(stream(3), s, data)
		outputs := s.Size() / s.FanIn
		at := func(o, i int) float64 {
			if len(s.Shape) == 2 {
				return float64(data[i*outputs+o])
			}
			return float64(data[o*s.FanIn+i])
		}
		n, m, get := outputs, s.FanIn, at
		if outputs > s.FanIn {
			n, m, get = s.FanIn, outputs, func(a, b int) float64 { return at(b, a) }
		}
		for a := range n {
			for b := range n {
				sum, want := 0.0, 0.0
				for j := range m {
					sum += get(a, j) * get(b, j)
				}
				if a == b {
					want = 1
				}
				if math.Abs(sum-want) > 1e-6 {
					t.Fatalf("%v: product of %d and %d is %g, want %g", s.Shape, a, b, sum, want)
				}
			}
		}
	}
}

func TestBadStates(t *testing.T) {
	a := Arch{Name: "m", Input: []int{3}, Classes: 3, Layers: []Layer{{Kind: Norm, Name: "n", Norm: BatchNorm}}}
	p, err := a.Init(stream)
	if err != nil {
		t.Fatal(err)
	}
	p[3].Data[1] = -1
	if err := p.Check(a); err == nil || !strings.Contains(err.Error(), "n.running_var: value 1 is -1") {
		t.Errorf("negative variance: %v", err)
	}
}

func ExampleWideResNet() {
	a, _ := WideResNet([]int{3, 32, 32}, 10, 10, 2, Style{Act: LeakyReLU})
	shapes, _ := a.Shapes()
	for i, l := range a.Layers {
		fmt.Println(l.Name, shapes[i])
	}
	// Output:
	// conv1 [16 32 32]
	// block1_1 [32 32 32]
	// block2_1 [64 16 16]
	// block3_1 [128 8 8]
	// act [128 8 8]
	// pool [128 1 1]
	// flatten [128]
	// logits [10]
}
