package intake

import (
	"fmt"
	"math"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/lower"
)

// vit is a vision transformer for images [3, 8, 8] as exporters write it: patches of 4 by 4, a class token, two layers
// of attention with two heads, values of 8, five classes.
type vit struct {
	*net
	rows int64 // 0: free, and shapes are computed as the graph runs
}

const vitWidth, vitTokens, vitHeads = 8, 5, 2

func (b *vit) name(op string) string { return b.g.Unique(op) }

// add is op with a name of its own.
func (b *vit) add(op string, inputs []string) string {
	return b.op(b.name(op), op, inputs)
}

// list is a constant of integers, as a node.
func (b *vit) list(v ...int64) string {
	return b.op(b.name("Constant"), "Constant", nil, ir.TensorAttr("value", ir.Int64Tensor("", v...)))
}

// scalar is a constant, as a node.
func (b *vit) scalar(v float64) string {
	t, err := ir.ScalarTensor("", b.elem, v)
	must(b, err)
	return b.op(b.name("Constant"), "Constant", nil, ir.TensorAttr("value", t))
}

// size computes a size of a value, in a list.
func (b *vit) size(x string, axis int64) string {
	one := b.op(b.name("Gather"), "Gather", []string{b.then("Shape", x), b.scalarInt(axis)}, ir.Int("axis", 0))
	return b.op(b.name("Unsqueeze"), "Unsqueeze", []string{one, b.list(0)})
}

func (b *vit) scalarInt(v int64) string {
	t := ir.Int64Tensor("", v)
	t.Dims = nil
	return b.op(b.name("Constant"), "Constant", nil, ir.TensorAttr("value", t))
}

// view is a Reshape to [rows of like, to...]. As exporters do it: computed, or all of it constant.
func (b *vit) view(x, like string, to ...int64) string {
	if b.rows > 0 {
		return b.add("Reshape", []string{x, b.list(append([]int64{b.rows}, to...)...)})
	}
	parts := []string{b.size(like, 0)}
	for _, d := range to {
		parts = append(parts, b.list(d))
	}
	return b.add("Reshape", []string{x, b.op(b.name("Concat"), "Concat", parts, ir.Int("axis", 0))})
}

func (b *vit) linear(x, name string, in, out int64) string {
	return b.add("Add", []string{b.add("MatMul", []string{x, b.weight(name+".weight", in, out)}), b.weight(name+".bias", out)})
}

// norm is a LayerNormalization, or before operator set 17 what it is made of.
func (b *vit) norm(x, name string) string {
	scale, bias := b.repeated(name+".weight", 1, vitWidth), b.weight(name+".bias", vitWidth)
	scale = b.op(b.name("Squeeze"), "Squeeze", []string{scale, b.list(0)})
	if ir.Opset(b.m) >= 17 {
		return b.op(b.name("norm"), "LayerNormalization", []string{x, scale, bias}, ir.Int("axis", -1), ir.Float("epsilon", 1e-5))
	}
	mean := b.op(b.name("ReduceMean"), "ReduceMean", []string{x}, ir.Ints("axes", -1))
	apart := b.add("Sub", []string{x, mean})
	square := b.op(b.name("ReduceMean"), "ReduceMean", []string{b.add("Pow", []string{apart, b.scalar(2)})}, ir.Ints("axes", -1))
	h := b.add("Div", []string{apart, b.then("Sqrt", b.add("Add", []string{square, b.scalar(1e-5)}))})
	return b.add("Add", []string{b.add("Mul", []string{h, scale}), bias})
}

// gelu is x/2 (1 + erf(x / sqrt 2)).
func (b *vit) gelu(x string) string {
	h := b.add("Add", []string{b.then("Erf", b.add("Div", []string{x, b.scalar(math.Sqrt2)})), b.scalar(1)})
	return b.add("Mul", []string{b.add("Mul", []string{x, h}), b.scalar(0.5)})
}

// attention over [N, T, D], with the heads taken apart from one product.
func (b *vit) attention(x, name string) string {
	const head = vitWidth / vitHeads
	qkv := b.view(b.linear(x, name+".qkv", vitWidth, 3*vitWidth), x, vitTokens, 3, vitHeads, head)
	qkv = b.then("Transpose", qkv, ir.Ints("perm", 2, 0, 3, 1, 4)) // [3, N, H, T, head]
	parts := []string{b.name("q"), b.name("k"), b.name("v")}
	b.g.AddNamed(b.name("Split"), "Split", []string{qkv, b.list(1, 1, 1)}, parts, ir.Int("axis", 0))
	for i, p := range parts {
		parts[i] = b.op(b.name("Squeeze"), "Squeeze", []string{p, b.list(0)})
	}
	k := b.then("Transpose", parts[1], ir.Ints("perm", 0, 1, 3, 2))
	scores := b.add("Mul", []string{b.add("MatMul", []string{parts[0], k}), b.scalar(1 / math.Sqrt(head))})
	h := b.add("MatMul", []string{b.then("Softmax", scores, ir.Int("axis", -1)), parts[2]})
	h = b.view(b.then("Transpose", h, ir.Ints("perm", 0, 2, 1, 3)), x, vitTokens, vitWidth)
	return b.linear(h, name+".out", vitWidth, vitWidth)
}

// token is the class token, once for each row.
func (b *vit) token(like string) string {
	token := b.weight("token", 1, 1, vitWidth)
	if b.rows > 0 { // as tracing leaves torch's expand(1, -1, -1)
		to := b.list(b.rows, -1, -1)
		ones := b.op(b.name("ConstantOfShape"), "ConstantOfShape", []string{b.list(3)}, ir.TensorAttr("value", ir.Int64Tensor("", 1)))
		same := b.add("Equal", []string{to, b.add("Mul", []string{ones, b.list(-1)})})
		return b.add("Expand", []string{token, b.add("Where", []string{same, ones, to})})
	}
	to := b.op(b.name("Concat"), "Concat", []string{b.size(like, 0), b.list(1), b.list(vitWidth)}, ir.Int("axis", 0))
	return b.add("Expand", []string{token, to})
}

func buildVit(n *net, rows int64) {
	b := &vit{n, rows}
	x := b.op("patches", "Conv", []string{b.input("pixels", ir.Float32, rows, 3, 8, 8), b.weight("patch", vitWidth, 3, 4, 4), b.weight("patch.bias", vitWidth)}, ir.Ints("strides", 4, 4))
	x = b.then("Transpose", b.view(x, x, vitWidth, -1), ir.Ints("perm", 0, 2, 1))
	x = b.op(b.name("Concat"), "Concat", []string{b.token(x), x}, ir.Int("axis", 1))
	x = b.add("Add", []string{x, b.weight("position", 1, vitTokens, vitWidth)})
	for layer := range 2 {
		at := fmt.Sprintf("layer%d", layer)
		x = b.add("Add", []string{x, b.attention(b.norm(x, at+".norm1"), at)})
		h := b.gelu(b.linear(b.norm(x, at+".norm2"), at+".up", vitWidth, 2*vitWidth))
		x = b.add("Add", []string{x, b.linear(h, at+".down", 2*vitWidth, vitWidth)})
	}
	b.op("hidden", "Gather", []string{b.norm(x, "norm"), b.scalarInt(0)}, ir.Int("axis", 1))
	b.op("z", "Gemm", []string{"hidden", b.weight("head", 5, vitWidth), b.weight("head.bias", 5)}, ir.Int("transB", 1))
	b.output("z", rows, 5)
}

// A vision transformer with free and fixed batches, and the same gradient in batches of 1, 7 and 64.
func TestVisionTransformer(t *testing.T) {
	for opset, batches := range map[int64][]int64{13: {0, 3}, 17: {0, 1}} {
		for _, rows := range batches {
			t.Run(fmt.Sprintf("opset %d, batch %d", opset, rows), func(t *testing.T) {
				c := theirs{opset: opset, shape: []int{8, 8, 3}, x: bytes(6, 192), cfg: withLayout(colours, "hwc", ""),
					file: perChannel(colours, 8, 8, 3, false, moved(8, 8, 3, true)), build: func(b *net) { buildVit(b, rows) },
					classes: 5, features: vitWidth, hidden: "hidden", head: true}
				c.verify = func(t *testing.T, c *Classifier) {
					must(t, c.AddScore(lower.Energy, false))
					checkBatches(t, c, session(t, c), bytes(64, 192))
				}
				c.run(t)
			})
		}
	}
}

// A network of TensorFlow: channels last, a Transpose in front of and behind every convolution, means over the pixels.
func TestChannelsLastNetwork(t *testing.T) {
	c := theirs{opset: 12, shape: []int{8, 8, 3}, x: bytes(probeRows, 192), cfg: withLayout(colours, "hwc", ""), classes: 4, features: 6, hidden: "hidden",
		file: perChannel(colours, 8, 8, 3, false, nil), from: "the input of the final Softmax", value: "z"}
	c.build = func(b *net) {
		x := b.input("serving_default_input", ir.Float32, 0, 8, 8, 3)
		for i, in := range []int64{3, 5} {
			name := fmt.Sprintf("conv%d", i)
			h := b.then("Transpose", x, ir.Ints("perm", 0, 3, 1, 2))
			h = b.op(name, "Conv", []string{h, b.weight(name+".kernel", in+2-int64(i), in, 3, 3)}, ir.Ints("strides", 2, 2), ir.String("auto_pad", "SAME_UPPER"))
			h = b.then("Transpose", h, ir.Ints("perm", 0, 2, 3, 1))
			h = b.op(name+".biased", "Add", []string{h, b.weight(name+".bias", in+2-int64(i))})
			x = b.then("Elu", h)
		}
		b.op("hidden", "Squeeze", []string{b.then("ReduceMean", x, ir.Ints("axes", 1, 2))}, ir.Ints("axes", 1, 2))
		b.dense("z", "hidden", 6, 4)
		b.op("answer", "Softmax", []string{"z"}, ir.Int("axis", 1))
		b.output("answer", 0, 4)
	}
	c.head = true
	c.run(t)
}
