package gradient

import (
	"math"
	"slices"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// In half precision, for which some rules have forms of their own, gradients are those of single precision to three
// digits.
func TestHalfPrecisionGradients(t *testing.T) {
	half := int32(onnxpb.TensorProto_FLOAT16)
	x := []float32{-0.75, -0.25, 0.125, 0.5, 0.875}
	for _, op := range []string{
		"Abs", "Asin", "Atanh", "Clip", "Cosh", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Reciprocal", "Relu", "Selu", "Shrink", "Sigmoid", "Sin", "Softsign", "Tanh", "ThresholdedRelu",
	} {
		t.Run(op, func(t *testing.T) {
			model := func(elem int32) *onnxpb.ModelProto {
				m := ir.NewModel("test", 10, 20)
				g, err := ir.NewGraph(m)
				must(t, err)
				must(t, g.Input("x", ir.Float32, ir.Fixed(5)))
				h := g.Add("Cast", []string{"x"}, ir.Int("to", int64(elem)))
				h = g.Add(op, []string{h})
				g.AddNamed("y", "Cast", []string{h}, []string{"y"}, ir.Int("to", int64(ir.Float32)))
				return m
			}
			got := gradients(t, model(half), "y", []string{"x"}, x)[0]
			want := gradients(t, model(ir.Float32), "y", []string{"x"}, x)[0]
			if !near(got, want, 4e-3) {
				t.Errorf("got %v, in single precision %v", got, want)
			}
		})
	}
}

// The gradients are the same in every operator set that has the operator.
func TestOperatorSets(t *testing.T) {
	for op, rule := range elementwise() {
		if rule.Gradient == nil || slices.Contains([]string{"Cast", "CastLike", "Mod"}, op) { // need attributes or types
			continue
		}
		t.Run(op, func(t *testing.T) {
			var want []float32
			for _, opset := range []int64{24, 20, 18, 15, 13, 11, 10, 8, 7} {
				if opset < rule.Since {
					break
				}
				got := gradients(t, inOperatorSet(t, op, opset), "y", []string{"x"}, []float32{0.125, 0.25, 0.5, 0.75, 0.875})[0]
				if want == nil {
					want = got
				}
				if !near(got, want, 1e-5) {
					t.Errorf("operator set %d: got %v, want %v", opset, got, want)
				}
			}
		})
	}
}

// inOperatorSet builds y = op(x, ...) w.
func inOperatorSet(t *testing.T, op string, opset int64) *onnxpb.ModelProto {
	t.Helper()
	m := ir.NewModel("test", 10, opset)
	g, err := ir.NewGraph(m)
	must(t, err)
	must(t, g.Input("x", ir.Float32, ir.Fixed(5)))
	must(t, g.Initializer(ir.Float32Tensor("w", []int64{5}, []float32{0.5, 2, 0.25, 3, 1})))
	args := []string{"x"}
	switch op {
	case "Add", "Div", "Max", "Mean", "Min", "Mul", "PRelu", "Pow", "Sub", "Sum":
		args = []string{"x", "w"}
	case "Where":
		args = []string{g.Add("Greater", []string{"w", "x"}), "x", "w"}
	case "Acosh": // of numbers above 1
		args = []string{g.Add("Exp", []string{"x"})}
	}
	g.AddNamed("y", "Mul", []string{g.Add(op, args), "w"}, []string{"y"})
	return m
}

func near(got, want []float32, tol float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= tol*(1+math.Abs(float64(want[i])))) {
			return false
		}
	}
	return true
}
