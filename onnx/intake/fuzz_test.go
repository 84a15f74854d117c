package intake

import (
	"testing"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// seeds are models of every kind, as bytes.
func seeds(f *testing.F) {
	for _, build := range []func(b *net){
		channelsFirst, channelsLast, flatNet, greyNet, inFunction, zipped(strs("classlabels_strings", "a", "b", "c")),
		behind(1, one("Sigmoid", "z"), 0, 1), behind(3, one("Softmax", "z", ir.Int("axis", 1)), 0, 3),
		func(b *net) { buildVit(b, 0) }, func(b *net) { buildVit(b, 1) }, func(b *net) { buildVit(b, 3) },
		fixed(4, func(b *net, x string) {
			h := b.op("tokens", "Concat", []string{b.repeated("token", 4, 1, 6), b.reshape("sequence", x, 4, 4, 6)}, ir.Int("axis", 1))
			h = b.op("placed", "Add", []string{h, b.repeated("position", 4, 5, 6)})
			h = b.op("wide", "Expand", []string{h, b.ints("size", 4, 5, 6)})
			b.mlp(b.reshape("back", b.op("thin", "Squeeze", []string{h}, ir.Ints("axes", 0)), -1, 30), 30, 3)
		}),
	} {
		b := newNet(f, 17)
		build(b)
		data, err := ir.Marshal(b.m)
		must(f, err)
		for i := range 40 {
			f.Add(data, keyedBytes(uint64(i), 3*(i%8)))
		}
	}
}

func keyedBytes(seed uint64, n int) []byte {
	rng := keyed.New(seed, "intake fuzz").At(0, 0)
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(rng.Uint64())
	}
	return out
}

// edit changes a model where bytes say, three for a change: most changes of the bytes of a file leave no model at all.
func edit(m *onnxpb.ModelProto, by []byte) {
	for ; len(by) >= 3 && len(m.GetGraph().GetNode()) > 0; by = by[3:] {
		g, kind, at, to := m.Graph, int(by[0]), int(by[1]), int(by[2])
		n := g.Node[at%len(g.Node)]
		other := g.Node[to%len(g.Node)]
		switch kind % 10 {
		case 0:
			n.OpType, n.Domain = other.OpType, other.Domain
		case 1:
			if len(n.Input) > 0 {
				n.Input[kind/10%len(n.Input)] = append([]string{""}, other.Output...)[to%(1+len(other.Output))]
			}
		case 2:
			n.Input = n.Input[:min(len(n.Input), to%3)]
		case 3:
			for _, a := range n.Attribute {
				a.I = int64(int8(to))
				for i := range a.Ints {
					a.Ints[i] = int64(int8(to)) % 7
				}
			}
		case 4:
			n.Attribute = nil
		case 5:
			if len(g.Initializer) > 0 {
				t := g.Initializer[at%len(g.Initializer)]
				t.Dims = [][]int64{nil, {0}, {int64(to)}, {2, -1}, {1, int64(to), 3}}[to%5]
			}
		case 6:
			if len(g.Initializer) > 0 {
				t := g.Initializer[at%len(g.Initializer)]
				for i := range t.RawData {
					t.RawData[i] = byte(to) * byte(i%8/7)
				}
			}
		case 7:
			if len(g.Input) > 0 {
				g.Input[0] = ir.ValueInfo(g.Input[0].Name, []int32{ir.Float32, ir.Int64, uint8Elem, 0}[at%4], ir.Fixed(int64(int8(to))), ir.Dim{}, ir.Free("N"))
			}
		case 8:
			g.Output = []*onnxpb.ValueInfoProto{{Name: append([]string{"none"}, other.Output...)[at%(1+len(other.Output))]}}
		case 9:
			rename(m, append([]string{"z"}, n.Output...)[to%(1+len(n.Output))], reserved[to%len(reserved)])
		}
	}
}

func rename(m *onnxpb.ModelProto, from, to string) {
	for _, n := range m.Graph.Node {
		for _, list := range [][]string{n.Input, n.Output} {
			for i := range list {
				if list[i] == from {
					list[i] = to
				}
			}
		}
	}
}

// Whatever a file holds is taken in or refused: no step before ONNX Runtime panics or hangs, and a model that is made is
// a sound one. ONNX Runtime itself is left out: a fault there would end the process.
func FuzzAdapt(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data, edits []byte) {
		m, err := ir.Load(data)
		if err != nil {
			return
		}
		edit(m, edits)
		if err := prepare("theirs.onnx", m); err != nil {
			if fault.KindOf(err) != fault.Data {
				t.Errorf("error of kind %v: %v", fault.KindOf(err), err)
			}
			return
		}
		for i, shape := range [][]int{{4, 5, 3}, {24}, {8}, {3, 8, 8}} {
			c := []Config{{}, {Output: "z", Kind: Logits, Features: "hidden"}, {Kind: Probabilities}}[(len(edits)+i)%3]
			c.Preprocess.SampleShape = shape
			adaptBlindly(t, ir.Clone(m), c)
		}
	})
}

// adaptBlindly goes through the steps of adapt with made-up values of the probe.
func adaptBlindly(t *testing.T, m *onnxpb.ModelProto, cfg Config) {
	g, err := ir.NewGraph(m)
	if err != nil {
		return
	}
	a := &adapter{cfg: cfg, rows: 2, width: size(cfg.Preprocess.SampleShape), m: m, g: g, c: &Classifier{Preprocess: cfg.Preprocess}, names: map[string]string{}}
	for _, step := range []func() error{a.takeInput, a.findOutput, a.findFeatures} {
		if err := step(); err != nil {
			return
		}
	}
	truth := []result{{3, make([]float32, 6)}, {3, []float32{1, 0, 0, 2, 1, 0}}, {2, make([]float32, 4)}}
	if a.settle(truth) != nil {
		return
	}
	if a.batch > 0 {
		a.freeBatch()
	}
	if err := a.finish(truth); err != nil {
		return
	}
	if err := ir.Check(a.c.Model); err != nil {
		t.Errorf("the model that was made is broken: %v", err)
	}
}
