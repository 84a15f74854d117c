package intake

import (
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

// fixed is a network on [B, 24], whose values go through shapes that state the batch.
func fixed(rows int64, body func(b *net, x string)) func(b *net) {
	return func(b *net) {
		body(b, b.input("values", ir.Float32, rows, 24))
		b.output("z", rows, 3)
	}
}

// reshape adds a Reshape to a constant shape.
func (b *net) reshape(name, x string, to ...int64) string {
	return b.op(name, "Reshape", []string{x, b.ints(name+"_shape", to...)})
}

// repeated adds a constant whose rows are all alike.
func (b *net) repeated(name string, rows int, dims ...int64) string {
	n, _ := ir.Elements(dims)
	var values []float64
	for range rows {
		for i := range n {
			values = append(values, float64(i%5)/4-0.5)
		}
	}
	return b.constant(name, values, append([]int64{int64(rows)}, dims...)...)
}

// repeatedState is a constant [1, 2, 5] with two rows alike.
func (b *net) repeatedState(name string) string {
	return b.constant(name, []float64{0.1, -0.2, 0.3, 0.4, -0.5, 0.1, -0.2, 0.3, 0.4, -0.5}, 1, 2, 5)
}

// Batch sizes that the file states are freed where rows stay apart, else kept.
func TestFixedBatches(t *testing.T) {
	dense := theirs{features: 6, hidden: "hidden", head: true, classes: 3, shape: []int{24}}
	for _, c := range []struct {
		name string
		set  func(c *theirs)
	}{
		{"of 1", func(c *theirs) { c.build = fixed(1, func(b *net, x string) { b.mlp(x, 24, 3) }) }},
		{"of 4", func(c *theirs) { c.build = fixed(4, func(b *net, x string) { b.mlp(x, 24, 3) }) }},
		{"of 1, reshaped to [1, -1]", func(c *theirs) {
			c.build = fixed(1, func(b *net, x string) { b.mlp(b.reshape("flat", b.reshape("cube", x, 1, 2, 3, 4), 1, -1), 24, 3) })
		}},
		{"of 1, reshaped to [1, F]", func(c *theirs) {
			c.build = fixed(1, func(b *net, x string) { b.mlp(b.reshape("flat", b.reshape("cube", x, 1, 2, 3, 4), 1, 24), 24, 3) })
		}},
		{"of 1, reshaped behind a transposition", func(c *theirs) {
			c.build = fixed(1, func(b *net, x string) {
				h := b.then("Transpose", b.reshape("cube", x, 1, 2, 3, 4), ir.Ints("perm", 2, 0, 1, 3))
				b.mlp(b.reshape("flat", b.then("Transpose", h, ir.Ints("perm", 1, 3, 0, 2)), 1, 24), 24, 3)
			})
		}},
		{"of 4, reshaped with the batch and something in one axis", func(c *theirs) {
			c.build = fixed(4, func(b *net, x string) {
				h := b.reshape("parts", x, 8, 12)
				b.op("part", "Tanh", []string{b.dense("each", h, 12, 5)})
				b.mlp(b.reshape("again", "part", 4, 10), 10, 3)
			})
		}},
		{"of 1, the sequence first", func(c *theirs) {
			c.build = fixed(1, func(b *net, x string) {
				h := b.then("Transpose", b.reshape("sequence", x, 1, 6, 4), ir.Ints("perm", 1, 0, 2)) // [6, 1, 4]
				h = b.then("Transpose", b.reshape("heads", h, 6, 2, 2), ir.Ints("perm", 1, 0, 2))     // [1 heads, 6, 2]
				h = b.op("mixed", "MatMul", []string{b.then("Softmax", h), b.weight("mixing", 2, 2)})
				h = b.reshape("joined", b.then("Transpose", h, ir.Ints("perm", 1, 0, 2)), 6, 4)
				h = b.reshape("back", b.then("Tanh", b.dense("joint", h, 4, 4)), 6, 1, 4)
				b.mlp(b.then("ReduceMean", h, ir.Ints("axes", 0), ir.Int("keepdims", 0)), 4, 3)
			})
		}},
		{"of 4, the sequence first", func(c *theirs) {
			c.build = fixed(4, func(b *net, x string) {
				h := b.then("Transpose", b.reshape("sequence", x, 4, 6, 4), ir.Ints("perm", 1, 0, 2)) // [6, 4, 4]
				h = b.then("Transpose", b.reshape("heads", h, 6, 8, 2), ir.Ints("perm", 1, 0, 2))     // [4 heads, 6, 2]
				h = b.op("mixed", "MatMul", []string{b.then("Softmax", h), b.weight("mixing", 2, 2)})
				h = b.reshape("joined", b.then("Transpose", h, ir.Ints("perm", 1, 0, 2)), 24, 4)
				h = b.reshape("back", b.then("Tanh", b.dense("joint", h, 4, 4)), 6, 4, 4)
				b.mlp(b.then("ReduceMean", h, ir.Ints("axes", 0), ir.Int("keepdims", 0)), 4, 3)
			})
		}},
		{"of 1, with a class token", func(c *theirs) {
			c.build = fixed(1, func(b *net, x string) {
				h := b.op("tokens", "Concat", []string{b.repeated("token", 1, 1, 6), b.reshape("sequence", x, 1, 4, 6)}, ir.Int("axis", 1))
				h = b.op("placed", "Add", []string{h, b.repeated("position", 1, 5, 6)})
				b.mlp(b.then("Flatten", h), 30, 3)
			})
		}},
		{"of 4, with a class token and positions for each", func(c *theirs) {
			c.build = fixed(4, func(b *net, x string) {
				h := b.op("tokens", "Concat", []string{b.repeated("token", 4, 1, 6), b.reshape("sequence", x, 4, 4, 6)}, ir.Int("axis", 1))
				h = b.op("placed", "Add", []string{h, b.repeated("position", 4, 5, 6)})
				b.mlp(b.then("Flatten", h), 30, 3)
			})
		}},
		{"of 4, with an expanded class token", func(c *theirs) {
			c.build = fixed(4, func(b *net, x string) {
				token := b.op("expanded", "Expand", []string{b.repeated("token", 1, 1, 6), b.ints("size", 4, 1, 6)})
				h := b.op("tokens", "Concat", []string{token, b.reshape("sequence", x, 4, 4, 6)}, ir.Int("axis", -2))
				b.mlp(b.then("Flatten", h), 30, 3)
			})
		}},
		{"of 4, a row repeated", func(c *theirs) {
			c.build = fixed(4, func(b *net, x string) {
				h := b.op("wide", "Expand", []string{b.reshape("short", x, 4, 1, 24), b.ints("size", 4, 3, 24)})
				b.mlp(b.then("Flatten", h), 72, 3)
			})
		}},
		{"of 2, with a recurrent layer", func(c *theirs) {
			c.noGradient = "LSTM"
			c.build = fixed(2, func(b *net, x string) {
				h := b.then("Transpose", b.reshape("sequence", x, 2, 6, 4), ir.Ints("perm", 1, 0, 2))
				b.g.AddNamed("recurrent", "LSTM", []string{h, b.weight("w", 1, 20, 4), b.weight("r", 1, 20, 5), "", "", b.repeatedState("h0"), b.repeatedState("c0")},
					[]string{"", "last"}, ir.Int("hidden_size", 5))
				b.mlp(b.reshape("flat", "last", 2, 5), 5, 3)
			})
		}},
		{"of 4, each with other constants", func(c *theirs) {
			c.err = "at another place in the batch of 4"
			c.build = fixed(4, func(b *net, x string) {
				b.mlp(b.op("placed", "Add", []string{x, b.weight("place", 4, 24)}), 24, 3)
			})
		}},
		{"of 5, and statistics of the batch", func(c *theirs) {
			c.err = "rows of a batch influence each other"
			c.build = fixed(5, func(b *net, x string) {
				mean := b.then("ReduceMean", x, ir.Ints("axes", 0), ir.Int("keepdims", 1))
				b.mlp(b.op("centred", "Sub", []string{x, mean}), 24, 3)
			})
		}},
		{"of 6, reversed", func(c *theirs) {
			c.batch, c.note = 6, "it runs in batches of 6"
			c.build = fixed(6, func(b *net, x string) {
				order := b.ints("order", 5, 4, 3, 2, 1, 0)
				h := b.op("reversed", "Gather", []string{x, order}, ir.Int("axis", 0))
				b.mlp(b.op("once_more", "Gather", []string{h, order}, ir.Int("axis", 0)), 24, 3)
			})
		}},
		{"of 1, output without a batch axis", func(c *theirs) {
			c.opset = 12
			c.build = func(b *net) {
				b.mlp(b.input("values", ir.Float32, 1, 24), 24, 3)
				b.op("answer", "Squeeze", []string{"z"}, ir.Ints("axes", 0))
				b.output("answer", 3)
			}
		}},
		{"free, and statistics of the batch", func(c *theirs) {
			c.err = "rows of a batch influence each other"
			c.build = fixed(0, func(b *net, x string) {
				mean := b.then("ReduceMean", x, ir.Ints("axes", 0), ir.Int("keepdims", 1))
				b.mlp(b.op("centred", "Add", []string{x, mean}), 24, 3)
			})
		}},
		{"free by name only", func(c *theirs) {
			c.build = fixed(0, func(b *net, x string) { b.mlp(b.reshape("flat", b.then("Tanh", x), 1, 24), 24, 3) })
		}},
		{"free by name only, stuck", func(c *theirs) {
			c.batch, c.note = 1, "it runs in batches of 1, which are built in: it does not run in batches of 10"
			c.build = fixed(0, func(b *net, x string) {
				b.mlp(b.op("only", "Slice", []string{x, b.ints("from", 0), b.ints("until", 1), b.ints("axes", 0)}), 24, 3)
			})
		}},
		{"beyond any memory", func(c *theirs) {
			c.err = "input values has shape [1099511627776, 24], a batch that no memory holds"
			c.build = fixed(1<<40, func(b *net, x string) { b.mlp(x, 24, 3) })
		}},
		{"of 1, stuck", func(c *theirs) {
			c.batch, c.note = 1, "it runs in batches of 1, which are built in"
			c.build = fixed(1, func(b *net, x string) {
				b.mlp(b.op("only", "Slice", []string{x, b.ints("from", 0), b.ints("until", 1), b.ints("axes", 0)}), 24, 3)
			})
		}},
		{"of 3, reversed, the last batch padded", func(c *theirs) {
			c.batch, c.note = 3, "it runs in batches of 3, which are built in"
			c.build = fixed(3, func(b *net, x string) {
				order := b.ints("order", 2, 1, 0)
				h := b.op("reversed", "Gather", []string{x, order}, ir.Int("axis", 0))
				b.mlp(b.op("once_more", "Gather", []string{h, order}, ir.Int("axis", 0)), 24, 3)
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			each := dense
			c.set(&each)
			each.run(t)
		})
	}
}
