package datasets

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/jempipe/jempipe/internal/fault"
)

func TestIDSet(t *testing.T) {
	var ints, texts idSet
	for i := range int64(maxIDs) {
		if !ints.add(intKey(i-5)) || !texts.add(textKey(fmt.Sprint(i))) {
			t.Fatalf("id %d is not new", i)
		}
	}
	for i := range int64(maxIDs) {
		if ints.add(intKey(i-5)) || texts.add(textKey(fmt.Sprint(i))) {
			t.Fatalf("id %d is new again", i)
		}
	}
	for range 2 {
		if !ints.add(intKey(1 << 60)) {
			t.Error("a full set forgets, it does not accuse")
		}
	}
}

func TestDuplicateIDs(t *testing.T) {
	rows := plainRows(6)
	rows[4][1] = req(int64(101))
	path := write(t, "a.parquet", parquetBytes(t, plainSchema(), 2, rows))
	spec := Spec{Source: "parquet", Path: path}
	_, err := tryCollect(checked(t, oneSet(spec)), "d", 4)
	wantFault(t, err, fault.Data, "a.parquet: row group 2, row 4, column sample_id: sample_id 101 is that of an earlier row")
	spec.BadRows = "keep"
	got := collect(t, oneSet(spec), "d", 4)
	if diff := cmp.Diff([]string{"ok", "ok", "ok", "ok", "duplicate_id", "ok"}, got.Status); diff != "" {
		t.Error(diff)
	}
	x := [][]cell{req("a"), {{0, 1, float32(1)}}}
	schema := parquet.Group{"sample_id": parquet.String(), "x": parquet.List(parquet.Leaf(parquet.FloatType))}
	path = write(t, "a.parquet", parquetBytes(t, schema, 9, [][][]cell{x, x}))
	_, err = tryCollect(oneSet(Spec{Source: "parquet", Path: path}), "d", 4)
	wantFault(t, err, fault.Data, "row group 0, row 1, column sample_id: sample_id a is that of an earlier row")
}
