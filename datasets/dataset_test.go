package datasets

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/jempipe/jempipe/internal/fault"
)

func open(t *testing.T, s *Set, n int) Reader {
	t.Helper()
	d, err := s.Get("d")
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Open(context.Background(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// Records have the documented schema, and survive Arrow's own file format.
func TestRecordSchema(t *testing.T) {
	r := open(t, oneSet(Spec{Source: "builtin:digits"}), 5)
	rec, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	want := `schema:
  fields: 5
    - sample_id: type=int64
    - label: type=int32, nullable
    - x: type=fixed_size_list<item: uint8, nullable>[64]
   metadata: ["shape": "8,8"]
    - status: type=utf8
    - status_reason: type=utf8, nullable`
	if diff := cmp.Diff(want, rec.Schema().String()); diff != "" {
		t.Error(diff)
	}
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(rec.Schema()))
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	back, err := ipc.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Release()
	if !back.Next() || !array.RecordEqual(rec, back.Record()) {
		t.Error("the record differs after a round trip through IPC")
	}
}

// A slice of a record decodes to the rows of the slice.
func TestDecodeOfSlice(t *testing.T) {
	rec, err := open(t, oneSet(Spec{Source: "builtin:digits"}), 10).Next()
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	part := rec.NewSlice(3, 6)
	defer part.Release()
	var whole, got Rows
	if err := errors.Join(Decode(rec, &whole), Decode(part, &got)); err != nil {
		t.Fatal(err)
	}
	want := Rows{
		IDs: whole.IDs[3:6], Labels: whole.Labels[3:6], HasLabel: whole.HasLabel[3:6], X: whole.X[3*64 : 6*64],
		Status: whole.Status[3:6], Reason: whole.Reason[3:6],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Len() != 3 || got.ID(1) != "4" {
		t.Errorf("%d rows, id %s", got.Len(), got.ID(1))
	}
	x := &whole.X[0]
	if err := Decode(part, &whole); err != nil || &whole.X[0] != x {
		t.Errorf("capacity is not reused (%v)", err)
	}
}

func TestDecodeRefusesForeignRecords(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	rec := b.NewRecord()
	defer rec.Release()
	if err := Decode(rec, &Rows{}); err == nil {
		t.Error("no error")
	}
}

func TestReaderEnds(t *testing.T) {
	r := open(t, checked(t, oneSet(Spec{Source: "builtin:digits", Limit: 5})), 2)
	var sizes []int64
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, rec.NumRows())
		rec.Release()
	}
	if diff := cmp.Diff([]int64{2, 2, 1}, sizes); diff != "" {
		t.Error(diff)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if _, err := r.Next(); err == nil || err == io.EOF {
		t.Errorf("after Close: %v", err)
	}
}

func TestReaderStopsWithContext(t *testing.T) {
	d, err := checked(t, oneSet(Spec{Source: "builtin:digits"})).Get("d")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r, err := d.Open(ctx, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rec, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	rec.Release()
	stop()
	if _, err := r.Next(); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if _, err := d.Open(ctx, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("error of Open %v, want context.Canceled", err)
	}
	if _, err := d.Open(context.Background(), 0); err == nil {
		t.Error("batches of no rows are accepted")
	}
}

// Large samples make small batches, whatever is asked for.
func TestBatchesAreBoundedByBytes(t *testing.T) {
	x := idxBytes(idxUint8, make([]uint8, 5<<24), 5, 1<<12, 1<<12)
	r := open(t, oneSet(Spec{Source: "idx", Images: write(t, "x", x)}), 1000)
	var sizes []int64
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, rec.NumRows())
		rec.Release()
	}
	if diff := cmp.Diff([]int64{4, 1}, sizes); diff != "" {
		t.Error(diff)
	}
}

func TestReadAll(t *testing.T) {
	s := checked(t, oneSet(Spec{Source: "builtin:digits"}))
	d, err := s.Get("d")
	if err != nil {
		t.Fatal(err)
	}
	const need = 1797 * 64 * 4
	rows, err := ReadAll(context.Background(), d, need)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(collect(t, s, "d", 7), rows); diff != "" {
		t.Error(diff)
	}
	_, err = ReadAll(context.Background(), d, need-1)
	wantFault(t, err, fault.Data, "data set d", "1797 rows of 64 values need 0.5 MB", "`limit`")
}

// Two readers of one data set do not disturb each other.
func TestReadersAreIndependent(t *testing.T) {
	path := write(t, "a.parquet", parquetBytes(t, plainSchema(), 3, plainRows(20)))
	s := oneSet(Spec{Source: "parquet", Path: path})
	a, b := open(t, s, 4), open(t, s, 6)
	var x, y Rows
	for range 3 {
		recA, err := a.Next()
		if err != nil {
			t.Fatal(err)
		}
		recB, err := b.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(x.append(recA), y.append(recB)); err != nil {
			t.Fatal(err)
		}
		recA.Release()
		recB.Release()
	}
	if diff := cmp.Diff(plainWant(0, 12).X, x.X) + cmp.Diff(plainWant(0, 18).X, y.X); diff != "" {
		t.Error(diff)
	}
}

// A Set may be used from several goroutines.
func TestSetIsSafeForConcurrentUse(t *testing.T) {
	path := write(t, "a.parquet", parquetBytes(t, plainSchema(), 3, plainRows(20)))
	s := NewSet(map[string]Spec{"d": {Source: "parquet", Path: path, Range: []float64{0, 20}}, "n": {Derive: "interpolation", Of: "d"}}, 1, "")
	var group errgroup.Group
	for i := range 8 {
		group.Go(func() error {
			_, err := tryCollect(s, []string{"d", "n"}[i%2], 1+i)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
