package datasets

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// One row group of 47 MB is read with the memory of a few pages and batches, by the set and by one derived from it.
func TestParquetMemoryIsFlat(t *testing.T) {
	type row struct {
		X []float32 `parquet:"x,list"`
	}
	path := filepath.Join(t.TempDir(), "a.parquet")
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b)
	rows := []row{{make([]float32, 784)}}
	for i := range 15000 {
		for k := range rows[0].X {
			rows[0].X[k] = float32((i*k)%251) / 250
		}
		if _, err := w.Write(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	b = bytes.Buffer{}
	s := NewSet(map[string]Spec{
		"read":    {Source: "parquet", Path: path, Range: []float64{0, 1}},
		"derived": {Derive: "interpolation", Of: "read"},
	}, 1, "")
	for name, limit := range map[string]uint64{"read": 6 << 20, "derived": 14 << 20} {
		d, err := s.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Open(context.Background(), 256)
		if err != nil {
			t.Fatal(err)
		}
		before, most := heap(), uint64(0)
		for i := 0; ; i++ {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if i%10 == 0 {
				most = max(most, heap())
			}
			rec.Release()
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if most > before+limit {
			t.Errorf("%s: %d bytes in use while reading, want at most %d", name, most-before, limit)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
