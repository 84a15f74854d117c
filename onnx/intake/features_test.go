package intake

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

// What is in front of the logits, and the weights of the layer in between.
func TestFeatures(t *testing.T) {
	// with is a network whose values behind hidden [N, 6] are those of a function, up to z.
	with := func(more func(b *net)) func(b *net) {
		return func(b *net) {
			b.op("hidden", "Tanh", []string{b.dense("first", b.input("values", ir.Float32, 0, 8), 8, 6)})
			more(b)
			b.output("z", 0, 3)
		}
	}
	base := theirs{classes: 3, features: 6, hidden: "hidden", head: true, shape: []int{8}}
	for _, c := range []struct {
		name string
		set  func(c *theirs)
	}{
		{"Gemm", func(c *theirs) {
			c.build = with(func(b *net) { b.op("z", "Gemm", []string{"hidden", b.weight("w", 6, 3), b.weight("b", 3)}) })
		}},
		{"Gemm with transposed weights", func(c *theirs) {
			c.build = with(func(b *net) {
				b.op("z", "Gemm", []string{"hidden", b.weight("w", 3, 6), b.weight("b", 3)}, ir.Int("transB", 1))
			})
		}},
		{"Gemm with one bias for all", func(c *theirs) {
			c.build = with(func(b *net) { b.op("z", "Gemm", []string{"hidden", b.weight("w", 6, 3), b.weight("b", 1)}) })
		}},
		{"Gemm without a bias", func(c *theirs) {
			c.build = with(func(b *net) { b.op("z", "Gemm", []string{"hidden", b.weight("w", 6, 3)}) })
		}},
		{"Gemm and a bias behind it", func(c *theirs) {
			c.build = with(func(b *net) {
				b.op("z", "Add", []string{b.op("product", "Gemm", []string{"hidden", b.weight("w", 6, 3)}), b.weight("b", 1, 3)})
			})
		}},
		{"Gemm with factors", func(c *theirs) {
			c.head = false
			c.build = with(func(b *net) {
				b.op("z", "Gemm", []string{"hidden", b.weight("w", 6, 3), b.weight("b", 3)}, ir.Float("alpha", 0.5))
			})
		}},
		{"MatMul", func(c *theirs) {
			c.build = with(func(b *net) { b.op("z", "MatMul", []string{"hidden", b.weight("w", 6, 3)}) })
		}},
		{"MatMul and a bias in front of it", func(c *theirs) {
			c.build = with(func(b *net) {
				b.op("z", "Add", []string{b.weight("b", 3), b.op("product", "MatMul", []string{"hidden", b.weight("w", 6, 3)})})
			})
		}},
		{"weights from a Constant and an Identity", func(c *theirs) {
			c.build = with(func(b *net) {
				b.weight("w", 6, 3)
				b.op("constant", "Constant", nil, ir.TensorAttr("value", b.m.Graph.Initializer[len(b.m.Graph.Initializer)-1]))
				b.op("z", "MatMul", []string{"hidden", b.then("Identity", "constant")})
			})
		}},
		{"weights from a transposed constant", func(c *theirs) {
			c.build = with(func(b *net) {
				b.op("z", "MatMul", []string{"hidden", b.then("Transpose", b.weight("w", 3, 6), ir.Ints("perm", 1, 0))})
			})
		}},
		{"weights that are cast", func(c *theirs) {
			c.build = with(func(b *net) {
				b.elem = ir.Float64
				w := b.weight("w", 6, 3)
				b.elem = ir.Float32
				b.op("z", "MatMul", []string{"hidden", b.then("Cast", w, ir.Int("to", int64(ir.Float32)))})
			})
		}},
		{"nodes that move values in between", func(c *theirs) {
			c.build = with(func(b *net) {
				h := b.op("product", "MatMul", []string{b.then("Identity", "hidden"), b.weight("w", 6, 3)})
				h = b.then("Identity", b.op("sum", "Add", []string{h, b.weight("b", 3)}))
				b.reshape("z", b.then("Flatten", h), -1, 3)
			})
		}},
		{"no dense layer at the end", func(c *theirs) {
			c.features, c.head = 0, false
			c.build = with(func(b *net) {
				b.op("z", "Relu", []string{b.op("product", "MatMul", []string{"hidden", b.weight("w", 6, 3)})})
			})
		}},
		{"a product of two values", func(c *theirs) {
			c.head = false
			c.build = with(func(b *net) {
				w := b.then("Tanh", b.reshape("each", b.dense("second", "hidden", 6, 18), -1, 6, 3))
				row := b.reshape("row", "hidden", -1, 1, 6)
				b.reshape("z", b.op("product", "MatMul", []string{row, w}), -1, 3)
			})
			c.hidden = "row"
		}},
		{"one layer on the input", func(c *theirs) {
			c.features, c.head = 0, false
			c.build = func(b *net) {
				b.dense("z", b.input("values", ir.Float32, 0, 8), 8, 3)
				b.output("z", 0, 3)
			}
		}},
		{"named", func(c *theirs) {
			c.cfg.Features, c.hidden, c.features, c.head = "earlier", "earlier", 7, false
			c.build = func(b *net) {
				b.op("earlier", "Tanh", []string{b.dense("first", b.input("values", ir.Float32, 0, 8), 8, 7)})
				b.op("hidden", "Tanh", []string{b.dense("second", "earlier", 7, 6)})
				b.dense("z", "hidden", 6, 3)
				b.output("z", 0, 3)
			}
		}},
		{"named, of several axes", func(c *theirs) {
			c.cfg.Features, c.hidden, c.features, c.head = "map", "map", 12, false
			c.build = func(b *net) {
				b.op("map", "Tanh", []string{b.reshape("two", b.dense("first", b.input("values", ir.Float32, 0, 8), 8, 12), 0, 3, 4)})
				b.dense("z", b.then("Flatten", "map"), 12, 3)
				b.output("z", 0, 3)
			}
		}},
		{"named, what is found anyway", func(c *theirs) {
			c.cfg.Features, c.build = "hidden", with(func(b *net) { b.dense("z", "hidden", 6, 3) })
		}},
		{"named, the logits", func(c *theirs) {
			c.cfg.Features, c.hidden, c.features, c.head = "z", "z", 3, false
			c.build = with(func(b *net) { b.dense("z", "hidden", 6, 3) })
		}},
		{"named, the input", func(c *theirs) {
			c.cfg.Features, c.hidden, c.features, c.head = "values", "values", 8, false
			c.cfg.Preprocess = half
			c.file = perChannel(half, 8, 1, 1, true, nil)
			c.build = with(func(b *net) { b.dense("z", "hidden", 6, 3) })
		}},
		{"named, the input as it is", func(c *theirs) {
			c.cfg.Features, c.hidden, c.features, c.head = "values", "values", 8, false
			c.build = with(func(b *net) { b.dense("z", "hidden", 6, 3) })
		}},
		{"named, unknown", func(c *theirs) {
			c.cfg.Features, c.build, c.err = "embedding", with(func(b *net) { b.dense("z", "hidden", 6, 3) }), `the model has no value "embedding" for the features`
		}},
		{"named, a constant", func(c *theirs) {
			c.cfg.Features, c.build, c.err = "z_weight", with(func(b *net) { b.dense("z", "hidden", 6, 3) }), `value "z_weight" for the features is a constant`
		}},
		{"a softmax of the input", func(c *theirs) {
			c.features, c.head, c.classes, c.value = 0, false, 8, "values"
			c.cfg.Preprocess = half
			c.file = perChannel(half, 8, 1, 1, true, nil)
			c.build = func(b *net) {
				b.op("z", "Softmax", []string{b.input("values", ir.Float32, 0, 8)})
				b.output("z", 0, 8)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			each := base
			c.set(&each)
			each.run(t)
		})
	}
}
