package gradient

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

func TestSoftmaxCrossEntropyLoss(t *testing.T) {
	checkJacobian(t, lossCases("SoftmaxCrossEntropyLoss")...)
	for _, names := range [][]string{{"p"}, {"loss0", "p"}} {
		k := lossCases("SoftmaxCrossEntropyLoss")[10] // weighted, and divided by the sum of weights
		k.name = fmt.Sprint(names)
		k.build = func(g *ir.Graph, args []string) {
			g.AddNamed("the_node", k.op, args, []string{"loss0", "p"}, k.attrs...)
			g.AddNamed("all", "Sum", names, []string{"y"})
		}
		if len(names) == 1 {
			k.wrt = []int{0}
		}
		checkJacobian(t, k)
	}
}
