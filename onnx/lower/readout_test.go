package lower

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/selftest"
)

func TestParseReadout(t *testing.T) {
	for text, want := range map[string]Readout{
		"energy": {Kind: "energy"}, "confidence": {Kind: "confidence"}, "logit:0": {Kind: "logit"}, "logprob:12": {Kind: "logprob", Class: 12}, "loss:3": {Kind: "loss", Class: 3},
	} {
		got, err := ParseReadout(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v (%s), %v", text, got, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "none of", "enrgy": "did you mean energy", "energy:1": "of no class", "logit": "needs a class", "logit:": "not a number", "loss:-1": "not a number", "logprob:1.5": "not a number",
		"logit:99999999999": "not a number",
	} {
		if got, err := ParseReadout(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, error %v, want one with %q", text, got, err, want)
		}
	}
	if err := (Readout{Kind: "logit", Class: 3}).Check(3); err == nil {
		t.Error("class 3 of 3 passes")
	}
}

// Each readout in the graph is the number that Of gives, and its gradient agrees with central differences of that number.
func TestReadouts(t *testing.T) {
	a := convnet(model.SiLU, 9)
	for _, text := range []string{"energy", "confidence", "logit:1", "logprob:2", "loss:0"} {
		t.Run(text, func(t *testing.T) {
			r, err := ParseReadout(text)
			must(t, err)
			m, err := Classifier(a, params(t, a), Options{})
			must(t, err)
			g, err := ir.NewGraph(m)
			must(t, err)
			name, err := r.Add(g, OutputLogits, a.Classes)
			must(t, err)
			flat, err := g.Constant(ir.Int64Tensor("flat", -1))
			must(t, err)
			g.AddNamed("readout", "Reshape", []string{name, flat}, []string{"readout"})
			g.Output("readout", ir.Float32, ir.Free("N"))
			must(t, AddGradient(m, name, InputX, OutputScore, rows(a.Input)...))
			s := load(t, m)
			x := samples(5, a.Input, 3)
			got := run(t, s, tensor(t, append([]int{5}, a.Input...), x))
			for i := range 5 {
				want := r.Of(got[OutputLogits][i*a.Classes : (i+1)*a.Classes])
				if d := math.Abs(float64(got["readout"][i]) - want); !(d <= 1e-5*(1+math.Abs(want))) {
					t.Errorf("row %d: %v in the graph, %v", i, got["readout"][i], want)
				}
			}
			test := selftest.Graph{Session: s, Name: text, Input: InputX, Shape: a.Input, Logits: OutputLogits, Score: OutputScore, Readout: r.Of}
			report, err := test.Run(context.Background(), x, 1)
			must(t, err)
			if report.Coordinates < 30 {
				t.Errorf("%+v", report)
			}
		})
	}
}
