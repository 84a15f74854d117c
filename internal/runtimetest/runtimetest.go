// Package runtimetest opens ONNX Runtime for tests and benchmarks.
package runtimetest

import (
	"sync"
	"testing"

	ort "github.com/jempipe/jempipe/onnx/runtime"
)

var open = sync.OnceValues(func() (*ort.Runtime, error) {
	return ort.Open(ort.Config{Provider: "cpu", Threads: 1}, nil)
})

// Open gives the runtime of a test process, on the CPU and with one thread a session where nothing else is said. A test
// skips where there is no library.
func Open(t testing.TB) *ort.Runtime {
	t.Helper()
	if _, err := ort.Find(""); err != nil {
		t.Skipf("ONNX Runtime is not installed: %v", err)
	}
	r, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return r
}
