package gradient

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// classicalCase is a case for an operator of the domain ai.onnx.ml that gives y as one of its outputs.
func classicalCase(op, name string, shapes [][]int64, output int, attrs ...*onnxpb.AttributeProto) jacobianCase {
	return jacobianCase{op: "ai.onnx.ml." + op, name: name, shapes: shapes, single: true, build: func(g *ir.Graph, args []string) {
		outs := []string{"y"}
		if output == 1 {
			outs = []string{"labels", "y"}
		}
		g.AddNamed("the_node", op, args, outs, attrs...).Domain = "ai.onnx.ml"
		if !strings.Contains(fmt.Sprint(g.Model.OpsetImport), "ai.onnx.ml") {
			g.Model.OpsetImport = append(g.Model.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: "ai.onnx.ml", Version: 1})
		}
	}}
}

func floats(name string, v ...float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOATS, Floats: v}
}

func TestScaler(t *testing.T) {
	x := [][]int64{{2, 3}}
	checkJacobian(t,
		classicalCase("Scaler", "", x, 0, floats("offset", 1, 2, 3), floats("scale", 0.5, -2, 3)),
		classicalCase("Scaler", "one factor", x, 0, floats("offset", 1), floats("scale", 0.5)),
		classicalCase("Scaler", "row", [][]int64{{3}}, 0, floats("offset", 1, 2, 3), floats("scale", 0.5, -2, 3)),
	)
}

func TestNormalizer(t *testing.T) {
	for _, norm := range []string{"L1", "L2", "MAX"} {
		k := classicalCase("Normalizer", norm, [][]int64{{3, 4}}, 0, ir.String("norm", norm))
		k.draw = func(rng *rand.Rand) float64 { return math.Copysign(2+2*rng.Float64(), spread(rng)) }
		k.static = true
		// The steps of a single-precision case are long, so the largest element is to stand out.
		next := 0
		if norm == "MAX" {
			k.draw = func(rng *rand.Rand) float64 {
				next++
				return float64(2+next%4) + 0.3*rng.Float64()
			}
		}
		checkJacobian(t, k)
	}
}

// A row of zeros stays as it is.
func TestNormalizerOfZeros(t *testing.T) {
	for _, norm := range []string{"L1", "L2", "MAX"} {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Fixed(1), ir.Fixed(2)))
			must(t, g.Initializer(ir.Float32Tensor("w", []int64{2}, []float32{3, 5})))
			classicalCase("Normalizer", "", nil, 0, ir.String("norm", norm)).build(g, []string{"x"})
			g.AddNamed("weighted", "Mul", []string{"y", "w"}, []string{"z"})
		})
		equal(t, gradients(t, m, "z", []string{"x"}, []float32{0, 0})[0], 3, 5)
	}
}

func TestImputer(t *testing.T) {
	checkJacobian(t,
		classicalCase("Imputer", "nothing missing", [][]int64{{2, 3}}, 0, floats("imputed_value_floats", 1, 2, 3), ir.Float("replaced_value_float", 9)),
		classicalCase("Imputer", "NaN", [][]int64{{2, 3}}, 0, floats("imputed_value_floats", 7), ir.Float("replaced_value_float", float32(math.NaN()))),
	)
	m := build(t, func(g *ir.Graph) {
		must(t, g.Input("x", ir.Float32, ir.Fixed(1), ir.Fixed(3)))
		classicalCase("Imputer", "", nil, 0, floats("imputed_value_floats", 7), ir.Float("replaced_value_float", 2)).build(g, []string{"x"})
	})
	equal(t, gradients(t, m, "y", []string{"x"}, []float32{1, 2, 3})[0], 1, 0, 1)
}

func TestArrayFeatureExtractor(t *testing.T) {
	for _, columns := range [][]int64{{1}, {1, 2}, {2, 0}, {0, 0, 1}} {
		for _, shape := range [][]int64{{2, 3}, {3}} {
			k := classicalCase("ArrayFeatureExtractor", fmt.Sprint(columns), [][]int64{shape}, 0)
			k.ints = [][]int64{columns}
			checkJacobian(t, k)
		}
	}
}

func TestFeatureVectorizer(t *testing.T) {
	checkJacobian(t, classicalCase("FeatureVectorizer", "", [][]int64{{2, 3}, {2, 1}}, 0, ir.Ints("inputdimensions", 3, 1)))
}

func TestLinearRegressor(t *testing.T) {
	checkJacobian(t,
		classicalCase("LinearRegressor", "", [][]int64{{2, 3}}, 0, floats("coefficients", 1, -2, 3), floats("intercepts", 0.5)),
		classicalCase("LinearRegressor", "targets", [][]int64{{2, 3}}, 0, floats("coefficients", 1, -2, 3, 0.5, 1, 1), floats("intercepts", 0.5, 1), ir.Int("targets", 2)),
	)
}

func TestLinearClassifier(t *testing.T) {
	for _, post := range []string{"NONE", "LOGISTIC", "SOFTMAX"} {
		checkJacobian(t,
			classicalCase("LinearClassifier", post, [][]int64{{2, 2}}, 1, floats("coefficients", 0.1, -0.2, 0.3, 0.1, 0.2, -0.1), floats("intercepts", 0.5, 1, 0), ir.Ints("classlabels_ints", 0, 1, 2), ir.String("post_transform", post)),
			classicalCase("LinearClassifier", post+" two", [][]int64{{2, 2}}, 1, floats("coefficients", 0.1, -0.2, -0.1, 0.2), floats("intercepts", 0.5, -0.5), ir.Ints("classlabels_ints", 0, 1), ir.String("post_transform", post)),
		)
	}
}
