package datasets

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"

	"github.com/jempipe/jempipe/internal/fault"
)

// oneSet is a Set with a single entry "d".
func oneSet(spec Spec) *Set { return NewSet(map[string]Spec{"d": spec}, 1, "") }

// checked makes a Set count its memory and fails the test where some is not released.
func checked(t *testing.T, s *Set) *Set {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	s.mem = mem
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return s
}

// collect reads all rows of an entry in batches of n.
func collect(t *testing.T, s *Set, name string, n int) *Rows {
	t.Helper()
	rows, err := tryCollect(s, name, n)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func tryCollect(s *Set, name string, n int) (*Rows, error) {
	d, err := s.Get(name)
	if err != nil {
		return nil, err
	}
	r, err := d.Open(context.Background(), n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	rows := &Rows{}
	for {
		rec, err := r.Next()
		if err == io.EOF {
			if int64(rows.Len()) != d.Info().Rows {
				return nil, errors.New("the number of rows is not that of Info")
			}
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		err = rows.append(rec)
		rec.Release()
		if err != nil {
			return nil, err
		}
	}
}

// wantFault checks kind and text of an error.
func wantFault(t *testing.T, err error, kind fault.Kind, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, wanted one with %q", parts)
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != kind {
		t.Errorf("error of kind %v, wanted %v: %v", fault.KindOf(err), kind, err)
	}
	if errors.Is(err, io.EOF) {
		t.Errorf("the error looks like the end of a data set: %v", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}

func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// idxBytes makes an IDX file; values are of a fixed-size type and written big-endian.
func idxBytes(kind byte, values any, dims ...uint32) []byte {
	var b bytes.Buffer
	b.Write([]byte{0, 0, kind, byte(len(dims))})
	_ = binary.Write(&b, binary.BigEndian, dims)
	_ = binary.Write(&b, binary.BigEndian, values)
	return b.Bytes()
}

// cell is an entry of a column: repetition level, definition level and value.
type cell struct {
	rep, def int
	value    any // nil for null
}

// list is a list of three levels whose elements may be null (nil), in an optional column.
func list(values ...any) []cell {
	if len(values) == 0 {
		return []cell{{0, 1, nil}}
	}
	var out []cell
	for i, v := range values {
		c := cell{min(i, 1), 3, v}
		if v == nil {
			c.def = 2
		}
		out = append(out, c)
	}
	return out
}

// nullList is a row without a list.
func nullList() []cell { return []cell{{0, 0, nil}} }

// req is a value of a required column, opt one of an optional column.
func req(v any) []cell { return []cell{{0, 0, v}} }

func opt(v any) []cell {
	if v == nil {
		return []cell{{0, 0, nil}}
	}
	return []cell{{0, 1, v}}
}

// parquetBytes writes rows whose columns are in order of their names. Every perGroup rows make a row group.
func parquetBytes(t testing.TB, schema parquet.Group, perGroup int, rows [][][]cell, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewWriter(&b, append([]parquet.WriterOption{parquet.NewSchema("rows", schema)}, options...)...)
	for i, row := range rows {
		if i > 0 && i%perGroup == 0 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		var values parquet.Row
		for column, cells := range row {
			for _, c := range cells {
				v := parquet.NullValue()
				if c.value != nil {
					v = parquet.ValueOf(c.value)
				}
				values = append(values, v.Level(c.rep, c.def, column))
			}
		}
		if _, err := w.WriteRows([]parquet.Row{values}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// floatList is the standard list of numbers.
func floatList() parquet.Node {
	return parquet.Optional(parquet.List(parquet.Optional(parquet.Leaf(parquet.FloatType))))
}

// plainRows are rows of label, sample_id and x = (i, i + 0.5, i + 0.25), with label i mod 3.
func plainRows(n int) [][][]cell {
	var rows [][][]cell
	for i := range n {
		f := float32(i)
		rows = append(rows, [][]cell{opt(int32(i % 3)), req(int64(100 + i)), list(f, f+0.5, f+0.25)})
	}
	return rows
}

// plainSchema belongs to plainRows.
func plainSchema() parquet.Group {
	return parquet.Group{"label": parquet.Optional(parquet.Int(32)), "sample_id": parquet.Int(64), "x": floatList()}
}
