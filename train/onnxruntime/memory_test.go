package onnxruntime

import (
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/model"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// resident is the resident memory of this process in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("the resident memory cannot be read: %v", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	must(t, err)
	return pages * int64(os.Getpagesize())
}

func heap() int64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryStaysFlat makes 10,000 gradients with weights that change, of full and of short batches.
func TestMemoryStaysFlat(t *testing.T) {
	rt := runtimetest.Open(t)
	a, err := model.Convnet([]int{1, 8, 8}, 3, []int{8}, []int{3}, []int{2}, []int{8}, model.Style{Act: model.SiLU})
	must(t, err)
	live, goroutines := ort.Live(), goruntime.NumGoroutine()
	p := draw(t, a, 1)
	e, err := New(rt, a, p, 8, 2, 1)
	must(t, err)
	full, short := batch(a, 8, 1), batch(a, 3, 2)
	steps := func(n int) {
		for i := range n {
			b := full
			if i%4 == 0 {
				b = short
			}
			p[i%len(p)].Data[0] += 1e-4
			for _, g := range e.Grads() {
				clear(g.Data)
			}
			_, err := e.Gradients(b)
			must(t, err)
		}
	}
	steps(1000)
	rss, used, open := resident(t), heap(), ort.Live()
	steps(10_000)
	if grown := heap() - used; grown > 256<<10 {
		t.Errorf("10,000 gradients leave %d bytes on the heap", grown)
	}
	if grown := resident(t) - rss; grown > 16<<20 {
		t.Errorf("10,000 gradients raise the resident memory by %d bytes", grown)
	}
	if now := ort.Live(); now != open {
		t.Errorf("%d native objects after 10,000 gradients, %d before", now, open)
	}
	must(t, e.Close())
	if now := ort.Live(); now != live {
		t.Errorf("%d native objects are open after Close, %d before New", now, live)
	}
	if now := goruntime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines after Close, %d before New", now, goroutines)
	}
}
