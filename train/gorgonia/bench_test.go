package gorgonia

import (
	"fmt"
	"testing"

	"github.com/jempipe/jempipe/model"
)

// wrn10x2 is the wide residual network for small machines.
func wrn10x2(t testing.TB) model.Arch {
	t.Helper()
	a, err := model.WideResNet([]int{3, 32, 32}, 10, 10, 2, model.Style{Act: model.LeakyReLU})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// BenchmarkStep is one parameter update of the example networks: gradients of 192 rows (labelled, data and sampled
// rows of a batch of 64) and an Adam step.
func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		name string
		arch model.Arch
	}{{"28x28", convnet28()}, {"8x8", convnet8()}, {"wrn-10-2", wrn10x2(b)}} {
		for _, shards := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/shards=%d", c.name, shards), func(b *testing.B) {
				const rows = 192
				p := testParams(b, c.arch, 1)
				e, err := New(c.arch, p, rows, shards, 0)
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
				u := newUpdater(b, DefaultSolver(), p, e)
				batch := testBatch(c.arch, rows, 2)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := e.Gradients(batch); err != nil {
						b.Fatal(err)
					}
					if err := u.Step(1e-4); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
