package intake

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
)

// write stores a model in a file of its own.
func write(t testing.TB, m *onnxpb.ModelProto) string {
	t.Helper()
	data, err := ir.Marshal(m)
	must(t, err)
	path := filepath.Join(t.TempDir(), "theirs.onnx")
	must(t, os.WriteFile(path, data, 0o644))
	return path
}

const uint8Elem, halfElem = int32(onnxpb.TensorProto_UINT8), int32(onnxpb.TensorProto_FLOAT16)

// moved gives a sample of shape [h, w, c] as [c, h, w], or back.
func moved(h, w, c int, toChannels bool) func([]float32) []float32 {
	return func(x []float32) []float32 {
		out := make([]float32, len(x))
		for i := range h * w {
			for k := range c {
				if toChannels {
					out[k*h*w+i] = x[i*c+k]
				} else {
					out[i*c+k] = x[k*h*w+i]
				}
			}
		}
		return out
	}
}

// perChannel gives (x/255 - mean) / std of a sample whose channel is the last axis, or the first.
func perChannel(p lower.Preprocess, h, w, c int, first bool, then func([]float32) []float32) func([]float32) []float32 {
	return func(x []float32) []float32 {
		out := make([]float32, len(x))
		for i := range x {
			k := i % c
			if first {
				k = i / (h * w)
			}
			out[i] = float32((float64(x[i])*p.Scale - p.Mean[k]) / p.Std[k])
		}
		if then != nil {
			out = then(out)
		}
		return out
	}
}

var colours = lower.Preprocess{Scale: 1.0 / 255, Mean: []float64{0.5, 0.4, 0.3}, Std: []float64{0.2, 0.25, 0.3}}

func withLayout(p lower.Preprocess, raw, input string) Config {
	p.Layout, p.InputLayout = raw, input
	return Config{Preprocess: p}
}

// convolution is a network on [N, 3, 4, 5], with the values hidden [N, 4] and z [N, 3].
func convolution(b *net, x string) string {
	h := b.op("conv", "Conv", []string{x, b.weight("kernel", 4, 3, 3, 3)}, ir.Ints("pads", 1, 1, 1, 1))
	h = b.then("Flatten", b.then("GlobalAveragePool", b.then("Tanh", h)))
	b.op("hidden", "Identity", []string{h})
	return b.op("z", "Gemm", []string{"hidden", b.weight("head", 3, 4), b.weight("bias", 3)}, ir.Int("transB", 1))
}

func channelsFirst(b *net) {
	convolution(b, b.input("image", ir.Float32, 0, 3, 4, 5))
	b.output("z", 0, 3)
}

func channelsLast(b *net) {
	convolution(b, b.then("Transpose", b.input("image", ir.Float32, 0, 4, 5, 3), ir.Ints("perm", 0, 3, 1, 2)))
	b.output("z", 0, 3)
}

// flatNet takes 24 values.
func flatNet(b *net) {
	b.mlp(b.input("values", ir.Float32, 0, 24), 24, 3)
	b.output("z", 0, 3)
}

// greyNet takes [N, 1, 4, 6].
func greyNet(b *net) {
	b.mlp(b.then("Flatten", b.input("grey", ir.Float32, 0, 1, 4, 6)), 24, 3)
	b.output("z", 0, 3)
}

// How inputs of every layout and element type are fed from raw samples.
func TestInputs(t *testing.T) {
	image := bytes(probeRows, 60)
	conv := theirs{classes: 3, features: 4, hidden: "hidden", head: true, x: image}
	flat := theirs{build: flatNet, classes: 3, features: 6, hidden: "hidden", head: true}
	typed := func(elem, weights int32, body func(b *net, x string)) func(b *net) {
		return func(b *net) {
			b.elem = weights
			body(b, b.input("values", elem, 0, 24))
			b.output("z", 0, 3)
		}
	}
	plain := func(b *net, x string) { b.mlp(x, 24, 3) }
	single := int64(ir.Float32)
	for _, c := range []struct {
		name string
		base theirs
		set  func(c *theirs)
	}{
		{"NCHW of hwc samples", conv, func(c *theirs) {
			c.build, c.shape, c.cfg, c.file = channelsFirst, []int{4, 5, 3}, withLayout(colours, "hwc", ""), perChannel(colours, 4, 5, 3, false, moved(4, 5, 3, true))
		}},
		{"NCHW of hwc samples, layouts not stated", conv, func(c *theirs) {
			c.build, c.shape, c.cfg, c.file = channelsFirst, []int{4, 5, 3}, Config{Preprocess: colours}, perChannel(colours, 4, 5, 3, false, moved(4, 5, 3, true))
		}},
		{"NCHW of chw samples", conv, func(c *theirs) {
			c.build, c.shape, c.cfg, c.file = channelsFirst, []int{3, 4, 5}, Config{Preprocess: colours}, perChannel(colours, 4, 5, 3, true, nil)
		}},
		{"NHWC of hwc samples", conv, func(c *theirs) {
			c.build, c.shape, c.cfg, c.file = channelsLast, []int{4, 5, 3}, withLayout(colours, "hwc", ""), perChannel(colours, 4, 5, 3, false, nil)
		}},
		{"NHWC of hwc samples, the model's layout stated", conv, func(c *theirs) {
			c.build, c.shape, c.cfg, c.file = channelsLast, []int{4, 5, 3}, withLayout(colours, "", "hwc"), perChannel(colours, 4, 5, 3, false, nil)
		}},
		{"NHWC of chw samples", conv, func(c *theirs) {
			c.build, c.shape, c.cfg, c.file = channelsLast, []int{3, 4, 5}, withLayout(colours, "chw", ""), perChannel(colours, 4, 5, 3, true, moved(4, 5, 3, false))
		}},
		{"NHWC of flat samples", conv, func(c *theirs) {
			c.build, c.shape, c.cfg, c.file = channelsLast, []int{60}, withLayout(colours, "", "hwc"), perChannel(colours, 4, 5, 3, false, nil)
		}},
		{"NCHW with open axes", conv, func(c *theirs) {
			c.build, c.shape, c.cfg = func(b *net) {
				convolution(b, b.input("image", ir.Float32, 0, 3, 0, 0))
				b.output("z", 0, 3)
			}, []int{4, 5, 3}, withLayout(colours, "hwc", "")
			c.file = perChannel(colours, 4, 5, 3, false, moved(4, 5, 3, true))
		}},
		{"flat", flat, func(c *theirs) { c.shape = []int{24} }},
		{"flat with open width", flat, func(c *theirs) {
			c.build = typed(ir.Float32, ir.Float32, plain)
			c.change = func(m *onnxpb.ModelProto) {
				m.Graph.Input[0] = ir.ValueInfo("values", ir.Float32, ir.Free("N"), ir.Free("F"))
			}
			c.shape = []int{24}
		}},
		{"width -1", flat, func(c *theirs) {
			c.change = func(m *onnxpb.ModelProto) {
				m.Graph.Input[0] = ir.ValueInfo("values", ir.Float32, ir.Fixed(-1), ir.Fixed(-1))
			}
			c.shape = []int{24}
		}},
		{"flat in the order of channels", flat, func(c *theirs) {
			c.shape, c.cfg, c.file = []int{2, 4, 3}, withLayout(lower.Preprocess{}, "hwc", "chw"), moved(2, 4, 3, true)
		}},
		{"flat in the order of pixels, of chw samples", flat, func(c *theirs) {
			c.shape, c.cfg, c.file = []int{3, 2, 4}, withLayout(lower.Preprocess{}, "chw", "hwc"), moved(2, 4, 3, false)
		}},
		{"grey of hw samples", flat, func(c *theirs) { c.build, c.shape = greyNet, []int{4, 6} }},
		{"grey, channel last", flat, func(c *theirs) {
			c.build, c.shape = func(b *net) {
				b.mlp(b.then("Flatten", b.input("grey", ir.Float32, 0, 4, 6, 1)), 24, 3)
				b.output("z", 0, 3)
			}, []int{4, 6}
		}},
		{"image without a channel axis", flat, func(c *theirs) {
			c.build, c.shape = func(b *net) {
				b.mlp(b.then("Flatten", b.input("grey", ir.Float32, 0, 4, 6)), 24, 3)
				b.output("z", 0, 3)
			}, []int{4, 6}
		}},
		{"uint8, cast behind a transposition", conv, func(c *theirs) {
			c.build = func(b *net) {
				x := b.then("Transpose", b.input("image", uint8Elem, 0, 4, 5, 3), ir.Ints("perm", 0, 3, 1, 2))
				x = b.op("scaled", "Div", []string{b.then("Cast", x, ir.Int("to", single)), b.constant("most", []float64{255})})
				convolution(b, x)
				b.output("z", 0, 3)
			}
			c.shape, c.cfg = []int{4, 5, 3}, withLayout(lower.Preprocess{}, "hwc", "")
		}},
		{"uint8 used as such", flat, func(c *theirs) {
			c.build = typed(uint8Elem, ir.Float32, func(b *net, x string) {
				table := b.op("looked_up", "Gather", []string{b.weight("table", 256, 1), b.then("Cast", x, ir.Int("to", int64(ir.Int64)))})
				h := b.then("Flatten", table)
				b.op("hidden", "Tanh", []string{h})
				b.dense("z", "hidden", 24, 3)
			})
			c.shape, c.x, c.features = []int{24}, bytes(probeRows, 24), 24
			c.note, c.noGradient = "input values is UINT8 and used as such", "no gradient with respect to"
		}},
		{"int64, cast", flat, func(c *theirs) {
			c.build = typed(ir.Int64, ir.Float32, func(b *net, x string) {
				b.mlp(b.op("scaled", "Mul", []string{b.then("Cast", x, ir.Int("to", single)), b.constant("step", []float64{0.01})}), 24, 3)
			})
			c.shape, c.x = []int{24}, bytes(probeRows, 24)
		}},
		{"float64", flat, func(c *theirs) { c.build, c.shape = typed(ir.Float64, ir.Float64, plain), []int{24} }},
		{"float64, cast", flat, func(c *theirs) {
			c.build = typed(ir.Float64, ir.Float32, func(b *net, x string) { plain(b, b.then("Cast", x, ir.Int("to", single))) })
			c.shape = []int{24}
		}},
		{"float16", flat, func(c *theirs) { c.build, c.shape = typed(halfElem, halfElem, plain), []int{24} }},
		{"float16 with a softmax", flat, func(c *theirs) {
			c.build, c.shape = func(b *net) {
				b.elem = halfElem
				b.mlp(b.input("values", halfElem, 0, 24), 24, 3)
				b.op("answer", "Softmax", []string{"z"}, ir.Int("axis", 1))
				b.output("answer", 0, 3)
			}, []int{24}
			c.from = "the input of the final Softmax"
		}},
		{"bool", flat, func(c *theirs) {
			c.build = typed(ir.Bool, ir.Float32, func(b *net, x string) { plain(b, b.then("Cast", x, ir.Int("to", single))) })
			c.shape, c.err = []int{24}, "input values has element type BOOL, want numbers"
		}},
		{"initializers among the inputs", flat, func(c *theirs) {
			c.change = func(m *onnxpb.ModelProto) {
				m.IrVersion = 3
				for _, w := range m.Graph.Initializer {
					m.Graph.Input = append([]*onnxpb.ValueInfoProto{ir.ValueInfo(w.Name, w.DataType, ir.FixedDims(w.Dims...)...)}, m.Graph.Input...)
				}
			}
			c.shape, c.opset = []int{24}, 8
		}},
		{"named", flat, func(c *theirs) { c.shape, c.cfg = []int{24}, Config{Input: "values"} }},
		{"another name", flat, func(c *theirs) {
			c.shape, c.cfg, c.err = []int{24}, Config{Input: "pixels"}, `the model has no input "pixels"; its input is "values"`
		}},
		{"two inputs", flat, func(c *theirs) {
			c.build = func(b *net) {
				b.mlp(b.op("both", "Add", []string{b.input("left", ir.Float32, 0, 24), b.input("right", ir.Float32, 0, 24)}), 24, 3)
				b.output("z", 0, 3)
			}
			c.shape, c.err = []int{24}, "the model has the inputs left, right: a classifier of samples has one"
		}},
		{"no inputs", flat, func(c *theirs) {
			c.build = func(b *net) {
				b.mlp(b.weight("fixed", 1, 24), 24, 3)
				b.output("z", 1, 3)
			}
			c.shape, c.err = []int{24}, "the model has no inputs"
		}},
		{"another size", flat, func(c *theirs) {
			c.shape, c.err = []int{5, 5}, "input values takes samples of shape [24], which 25 values of shape [5 5] cannot fill"
		}},
		{"no batch axis", flat, func(c *theirs) {
			c.change = func(m *onnxpb.ModelProto) { m.Graph.Input[0] = ir.ValueInfo("values", ir.Float32, ir.Fixed(24)) }
			c.shape, c.err = []int{24}, "input values has shape [24], want [N, ...]"
		}},
		{"no shape", flat, func(c *theirs) {
			c.change = func(m *onnxpb.ModelProto) { m.Graph.Input[0].Type.GetTensorType().Shape = nil }
			c.shape, c.err = []int{24}, "the file does not state the shape of input values"
		}},
		{"no tensor", flat, func(c *theirs) {
			c.change = func(m *onnxpb.ModelProto) { m.Graph.Input[0].Type = &onnxpb.TypeProto{} }
			c.shape, c.err = []int{24}, "input values is no tensor"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.base.name = c.name
			c.set(&c.base)
			c.base.run(t)
		})
	}
}
