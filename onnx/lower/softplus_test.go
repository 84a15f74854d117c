package lower

import (
	"math"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

func TestSoftplusSpelled(t *testing.T) {
	g, err := ir.NewGraph(ir.NewModel("softplus", IRVersion, Opset))
	must(t, err)
	must(t, g.Input("x", ir.Float32, ir.Free("N")))
	g.AddNamed("act", "Softplus", []string{"x"}, []string{"y"})
	spellSoftplus(g)
	g.Output("y", ir.Float32, ir.Free("N"))
	x := []float32{-200, -100, -20, -3, -0.25, 0, 1e-6, 0.25, 3, 20, 100, 200}
	want := make([]float64, len(x))
	for i, v := range x {
		want[i] = math.Log1p(math.Exp(float64(v)))
	}
	near(t, "softplus", run(t, load(t, g.Model), tensor(t, []int{len(x)}, x))["y"], want, 2e-7)
}
