package datasets

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/jempipe/jempipe/internal/fault"
)

// readDamaged reads a file that may be damaged: it must give rows or a fault.Data error, never a panic, and never another
// number of rows without an error.
func readDamaged(t *testing.T, spec Spec) {
	t.Helper()
	rows, err := tryCollect(oneSet(spec), "d", 16)
	if err == nil {
		if rows.Len() == 0 {
			t.Error("no rows and no error")
		}
		return
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.Data {
		t.Errorf("not a data error: %v", err)
	}
	if errors.Is(err, io.EOF) {
		t.Errorf("the error looks like the end of a data set: %v", err)
	}
}

// smallParquets are files that between them have every way of storing columns.
func smallParquets(t testing.TB) map[string][]byte {
	dict := func(n parquet.Node) parquet.Node { return parquet.Encoded(n, &parquet.RLEDictionary) }
	text := parquet.Group{"label": parquet.Optional(dict(parquet.Int(32))), "sample_id": parquet.String(), "x": parquet.List(dict(parquet.Uint(8)))}
	var rows [][][]cell
	for i := range 40 {
		rows = append(rows, [][]cell{opt(int32(i % 3)), req("id" + string(rune('a'+i%26))), {{0, 1, uint32(i)}, {1, 1, uint32(2)}}})
	}
	return map[string][]byte{
		"plain":  parquetBytes(t, plainSchema(), 16, plainRows(40), parquet.Compression(&parquet.Uncompressed)),
		"snappy": parquetBytes(t, plainSchema(), 16, plainRows(40), parquet.Compression(&parquet.Snappy), parquet.DataPageVersion(1)),
		"text":   parquetBytes(t, text, 16, rows, parquet.Compression(&parquet.Zstd)),
	}
}

func TestDamagedParquet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.parquet")
	for name, good := range smallParquets(t) {
		spec := Spec{Source: "parquet", Path: path}
		try := func(data []byte, what string, at int) {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			readDamaged(t, spec)
			if t.Failed() {
				t.Fatalf("%s: %s at byte %d of %d", name, what, at, len(good))
			}
		}
		const places = 90
		for i := range places {
			at := i * len(good) / places
			try(good[:at], "cut", at)
			flipped := bytes.Clone(good)
			flipped[at] ^= byte(1 << (i % 8))
			try(flipped, "flipped a bit", at)
			flipped[at] = 0xff
			try(flipped, "set to ff", at)
		}
	}
}

func FuzzParquet(f *testing.F) {
	for _, data := range smallParquets(f) {
		f.Add(data)
	}
	f.Add([]byte("PAR1\x00\x00\x00\x00PAR1"))
	path := filepath.Join(f.TempDir(), "fuzz.parquet")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		readDamaged(t, Spec{Source: "parquet", Path: path, NumClasses: 3, BadRows: "keep", Skip: 1})
	})
}

func FuzzIDX(f *testing.F) {
	x := idxBytes(idxUint8, []uint8{1, 2, 3, 4, 5, 6}, 3, 2)
	f.Add(x)
	f.Add(zipped(f, x))
	f.Add(idxBytes(idxFloat32, []float32{1, 2, 3, 4}, 2, 1, 2))
	f.Add(idxBytes(idxInt16, []int16{1, 2, 3}, 3))
	f.Add(idxBytes(idxUint8, []uint8{}, 0xffffffff, 1<<20))
	path := filepath.Join(f.TempDir(), "fuzz.idx")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		readDamaged(t, Spec{Source: "idx", Images: path})
		readDamaged(t, Spec{Source: "idx", Images: path, Labels: path, BadRows: "keep"})
	})
}
