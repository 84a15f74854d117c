package runtime_test

import (
	"context"
	"fmt"
	"testing"

	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// BenchmarkRun is a loop of calls on tensors that are reused, with some Go work between them, with and without threads
// that spin while they wait.
func BenchmarkRun(b *testing.B) {
	open(b)
	for _, threads := range []int{1, 2} {
		for _, spin := range []string{"off", "on", "during runs"} {
			for _, size := range []int64{16, 64, 192} {
				b.Run(fmt.Sprintf("threads=%d/spinning=%s/size=%d", threads, spin, size), func(b *testing.B) {
					benchmarkRun(b, threads, spin, size)
				})
			}
		}
	}
}

func benchmarkRun(b *testing.B, threads int, spin string, size int64) {
	options := map[string]map[string]string{
		"off":         {"session.intra_op.allow_spinning": "0"},
		"on":          {"session.intra_op.allow_spinning": "1"},
		"during runs": {"session.intra_op.allow_spinning": "1", "session.force_spinning_stop": "1"},
	}[spin]
	r, err := ort.Open(ort.Config{Provider: "cpu", Threads: threads, Options: options}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	s, err := r.Session(chain(16), ort.SessionOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	call, err := s.Bind(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	x, y := tensor(b, []int64{size, size}), tensor(b, []int64{size, size})
	in, out := []*ort.Tensor{x}, []*ort.Tensor{y}
	b.ReportAllocs()
	for b.Loop() {
		if err := call.Run(ctx, in, out); err != nil {
			b.Fatal(err)
		}
		for i, v := range y.Data() {
			x.Data()[i] = 0.5*v + 0.001
		}
	}
}
