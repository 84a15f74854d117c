package datasets

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/jempipe/jempipe/internal/fault"
)

func plainWant(from, to int) *Rows {
	want := &Rows{}
	for i := from; i < to; i++ {
		f := float32(i)
		want.IDs = append(want.IDs, int64(100+i))
		want.Labels = append(want.Labels, int32(i%3))
		want.HasLabel = append(want.HasLabel, true)
		want.X = append(want.X, f, f+0.5, f+0.25)
		want.Status = append(want.Status, StatusOK)
		want.Reason = append(want.Reason, "")
	}
	return want
}

// Pages, row groups, files, skip and batch sizes must not show in the rows.
func TestParquetIsOneStream(t *testing.T) {
	dir := t.TempDir()
	rows := plainRows(50)
	for name, part := range map[string][][][]cell{"b.parquet": rows[20:], "a.parquet": rows[:20]} {
		data := parquetBytes(t, plainSchema(), 7, part, parquet.PageBufferSize(64))
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, cut := range []struct{ skip, limit int64 }{{0, 0}, {3, 0}, {7, 10}, {20, 0}, {23, 5}, {49, 0}, {0, 50}, {0, 99}} {
		for _, n := range []int{1, 2, 7, 20, 64} {
			s := checked(t, NewSet(map[string]Spec{"d": {
				Source: "parquet", Path: "*.parquet", NumClasses: 3, Skip: cut.skip, Limit: cut.limit,
			}}, 1, dir))
			to := int64(50)
			if cut.limit > 0 {
				to = min(to, cut.skip+cut.limit)
			}
			if diff := cmp.Diff(plainWant(int(cut.skip), int(to)), collect(t, s, "d", n)); diff != "" {
				t.Fatalf("skip %d, limit %d, batches of %d: %s", cut.skip, cut.limit, n, diff)
			}
		}
	}
}

func TestParquetInfo(t *testing.T) {
	path := write(t, "a.parquet", parquetBytes(t, plainSchema(), 10, plainRows(12)))
	d, err := oneSet(Spec{Source: "parquet", Path: path, ClassNames: []string{"a", "b", "c"}, Shape: []int{1, 3}, Range: []float64{0, 12}}).Get("d")
	if err != nil {
		t.Fatal(err)
	}
	want := Info{Name: "d", Rows: 12, Shape: []int{1, 3}, Labelled: true, Classes: []string{"a", "b", "c"}, Float: true, Hi: 12}
	if diff := cmp.Diff(want, d.Info()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{path}, d.Files()); diff != "" {
		t.Error(diff)
	}
}

// Every accepted form of a list, and every type of number.
func TestParquetLists(t *testing.T) {
	three := func(n parquet.Node) parquet.Node { return parquet.List(n) }
	for _, c := range []struct {
		name string
		x    parquet.Node
		row  []cell
		want []float32
		u8   bool
	}{
		{"required list of required", three(parquet.Leaf(parquet.FloatType)), []cell{{0, 1, float32(1)}, {1, 1, float32(2)}}, []float32{1, 2}, false},
		{"optional list of required", parquet.Optional(three(parquet.Leaf(parquet.DoubleType))), []cell{{0, 2, 1.5}, {1, 2, 2.5}}, []float32{1.5, 2.5}, false},
		{"two levels", parquet.Optional(parquet.Group{"array": parquet.Repeated(parquet.Leaf(parquet.FloatType))}), []cell{{0, 2, float32(3)}, {1, 2, float32(4)}}, []float32{3, 4}, false},
		{"repeated", parquet.Repeated(parquet.Leaf(parquet.FloatType)), []cell{{0, 1, float32(5)}, {1, 1, float32(6)}}, []float32{5, 6}, false},
		{"other names", parquet.Optional(parquet.Group{"bag": parquet.Repeated(parquet.Group{"array_element": parquet.Optional(parquet.Leaf(parquet.FloatType))})}), []cell{{0, 3, float32(7)}, {1, 3, float32(8)}}, []float32{7, 8}, false},
		{"uint8", three(parquet.Uint(8)), []cell{{0, 1, uint32(0)}, {1, 1, uint32(255)}}, []float32{0, 255}, true},
		{"uint8 in a dictionary", three(parquet.Encoded(parquet.Uint(8), &parquet.RLEDictionary)), []cell{{0, 1, uint32(0)}, {1, 1, uint32(255)}}, []float32{0, 255}, true},
		{"int8", three(parquet.Int(8)), []cell{{0, 1, int32(-128)}, {1, 1, int32(127)}}, []float32{-128, 127}, false},
		{"int16 in a dictionary", three(parquet.Encoded(parquet.Int(16), &parquet.RLEDictionary)), []cell{{0, 1, int32(-3)}, {1, 1, int32(300)}}, []float32{-3, 300}, false},
		{"uint16", three(parquet.Uint(16)), []cell{{0, 1, uint32(0)}, {1, 1, uint32(65535)}}, []float32{0, 65535}, false},
		{"int32", three(parquet.Int(32)), []cell{{0, 1, int32(-7)}, {1, 1, int32(7)}}, []float32{-7, 7}, false},
		{"plain int32", three(parquet.Leaf(parquet.Int32Type)), []cell{{0, 1, int32(-7)}, {1, 1, int32(7)}}, []float32{-7, 7}, false},
		{"uint32", three(parquet.Uint(32)), []cell{{0, 1, uint32(7)}, {1, 1, uint32(4294967295)}}, []float32{7, 4294967295}, false},
		{"int64", three(parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked)), []cell{{0, 1, int64(-9)}, {1, 1, int64(9)}}, []float32{-9, 9}, false},
		{"uint64", three(parquet.Uint(64)), []cell{{0, 1, uint64(1)}, {1, 1, uint64(math.MaxUint64)}}, []float32{1, math.MaxUint64}, false},
		{"double in a dictionary", three(parquet.Encoded(parquet.Leaf(parquet.DoubleType), &parquet.RLEDictionary)), []cell{{0, 1, 0.25}, {1, 1, -0.25}}, []float32{0.25, -0.25}, false},
		{"byte stream split", three(parquet.Encoded(parquet.Leaf(parquet.FloatType), &parquet.ByteStreamSplit)), []cell{{0, 1, float32(0.25)}, {1, 1, float32(2)}}, []float32{0.25, 2}, false},
	} {
		for _, version := range []int{1, 2} {
			for _, codec := range []parquet.WriterOption{parquet.Compression(&parquet.Uncompressed), parquet.Compression(&parquet.Snappy), parquet.Compression(&parquet.Zstd), parquet.Compression(&parquet.Gzip)} {
				data := parquetBytes(t, parquet.Group{"x": c.x}, 2, [][][]cell{{c.row}, {c.row}, {c.row}}, codec, parquet.DataPageVersion(version))
				s := checked(t, oneSet(Spec{Source: "parquet", Path: write(t, "a.parquet", data)}))
				d, err := s.Get("d")
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				if d.Info().Float == c.u8 || d.Info().Labelled {
					t.Errorf("%s: Info %+v", c.name, d.Info())
				}
				got := collect(t, s, "d", 2)
				want := append(append(append([]float32{}, c.want...), c.want...), c.want...)
				if diff := cmp.Diff(want, got.X); diff != "" {
					t.Errorf("%s, pages v%d: %s", c.name, version, diff)
				}
				if diff := cmp.Diff([]int64{0, 1, 2}, got.IDs); diff != "" {
					t.Errorf("%s: %s", c.name, diff)
				}
			}
		}
	}
}

// Version 1 pages may cut a row in two: every value is a page of its own here.
func TestParquetRowsOverPages(t *testing.T) {
	data := parquetBytes(t, plainSchema(), 100, plainRows(9), parquet.DataPageVersion(1), parquet.PageBufferSize(1))
	s := checked(t, oneSet(Spec{Source: "parquet", Path: write(t, "a.parquet", data)}))
	if diff := cmp.Diff(plainWant(0, 9), collect(t, s, "d", 4)); diff != "" {
		t.Error(diff)
	}
}

func TestParquetIDs(t *testing.T) {
	three := parquet.List(parquet.Leaf(parquet.FloatType))
	x := []cell{{0, 1, float32(1)}}
	for _, c := range []struct {
		name string
		id   parquet.Node
		ids  [][]cell
		ints []int64
		text []string
		err  string
	}{
		{"text", parquet.String(), [][]cell{req("a"), req("é"), req("")}, nil, []string{"a", "é", ""}, ""},
		{"text in a dictionary", parquet.Encoded(parquet.String(), &parquet.RLEDictionary), [][]cell{req("a"), req("b"), req("c")}, nil, []string{"a", "b", "c"}, ""},
		{"bytes", parquet.Leaf(parquet.ByteArrayType), [][]cell{req([]byte("a")), req([]byte("b")), req([]byte("c"))}, nil, []string{"a", "b", "c"}, ""},
		{"int32", parquet.Int(32), [][]cell{req(int32(-1)), req(int32(5)), req(int32(0))}, []int64{-1, 5, 0}, nil, ""},
		{"optional int64", parquet.Optional(parquet.Int(64)), [][]cell{opt(int64(3)), opt(int64(0)), opt(int64(9))}, []int64{3, 0, 9}, nil, ""},
		{"uint64", parquet.Uint(64), [][]cell{req(uint64(3)), req(uint64(0)), req(uint64(9))}, []int64{3, 0, 9}, nil, ""},
		{"large uint64", parquet.Uint(64), [][]cell{req(uint64(3)), req(uint64(math.MaxUint64)), req(uint64(9))}, nil, nil, "row 1, column sample_id: 18446744073709551615, wanted at most"},
		{"null", parquet.Optional(parquet.Int(64)), [][]cell{opt(int64(3)), opt(nil), opt(int64(9))}, nil, nil, "row group 0, row 1, column sample_id: null, wanted an id"},
		{"not UTF-8", parquet.Leaf(parquet.ByteArrayType), [][]cell{req([]byte("a")), req([]byte("b")), req([]byte{0xff})}, nil, nil, "row group 1, row 2, column sample_id: \"\\xff\" is not UTF-8"},
		{"double", parquet.Leaf(parquet.DoubleType), [][]cell{req(1.0), req(2.0), req(3.0)}, nil, nil, "column sample_id: DOUBLE, wanted integers or text"},
	} {
		var rows [][][]cell
		for _, id := range c.ids {
			rows = append(rows, [][]cell{id, x})
		}
		data := parquetBytes(t, parquet.Group{"sample_id": c.id, "x": three}, 2, rows)
		got, err := tryCollect(checked(t, oneSet(Spec{Source: "parquet", Path: write(t, "a.parquet", data), BadRows: "keep"})), "d", 10)
		if c.err != "" {
			wantFault(t, err, fault.Data, "a.parquet", c.err)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.ints, got.IDs) + cmp.Diff(c.text, got.IDStrings); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// Files and row groups without rows are passed over.
func TestParquetEmptyParts(t *testing.T) {
	dir := t.TempDir()
	for name, n := range map[string]int{"a.parquet": 0, "b.parquet": 3, "c.parquet": 0, "d.parquet": 2} {
		rows := plainRows(5)[:n]
		if name == "d.parquet" {
			rows = plainRows(5)[3:]
		}
		if err := os.WriteFile(filepath.Join(dir, name), parquetBytes(t, plainSchema(), 9, rows), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := checked(t, NewSet(map[string]Spec{"d": {Source: "parquet", Path: "?.parquet"}}, 1, dir))
	if diff := cmp.Diff(plainWant(0, 5), collect(t, s, "d", 4)); diff != "" {
		t.Error(diff)
	}
}
