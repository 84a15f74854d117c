package gradient

import (
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

// Every refusal reaches the user with its reason and what to do, after a colon.
func TestRefusals(t *testing.T) {
	for name, rule := range refusals() {
		m := build(t, func(g *ir.Graph) {
			must(t, g.Input("x", ir.Float32, ir.Fixed(2)))
			n := g.AddNamed("node", name, []string{"x"}, []string{"h"})
			if domain, op, found := strings.Cut(name, "ml."); found {
				n.Domain, n.OpType = domain+"ml", op
			}
			g.AddNamed("last", "Exp", []string{"h"}, []string{"y"})
		})
		_, err := Gradient(m, "y", []string{"x"})
		if err == nil || !strings.Contains(err.Error(), "it cannot be differentiated: "+rule.Refuse) {
			t.Errorf("%s: error %v", name, err)
		}
		if !strings.Contains(rule.Refuse, ": ") {
			t.Errorf("%s: %q does not say what to do", name, rule.Refuse)
		}
	}
}
