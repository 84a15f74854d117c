package datasets

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/testdata"
)

func TestNotParquet(t *testing.T) {
	good := parquetBytes(t, plainSchema(), 10, plainRows(20))
	long := bytes.Clone(good)
	copy(long[len(long)-8:], []byte{0xff, 0xff, 0xff, 0x7f})
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "not a Parquet file: 0 bytes"},
		{"3 bytes", []byte("PAR"), "not a Parquet file: 3 bytes"},
		{"12 bytes", []byte("hello world!"), "not a Parquet file: 12 bytes"},
		{"magic alone", []byte("PAR1PAR1"), "cut off"},
		{"12 bytes with magic", []byte("PAR1\x00\x00\x00\x00PAR1"), "damaged"},
		{"text", []byte("sample_id,label,x\n1,2,3\n"), "do not start with PAR1"},
		{"encrypted", append([]byte("PARE"), good[4:]...), "encrypted"},
		{"cut footer", good[:len(good)-20], "cut off"},
		{"cut by one byte", good[:len(good)-1], "cut off"},
		{"footer too long", long, "the footer claims 2147483647 bytes of a file of"},
		{"no footer", append(bytes.Clone(good[:100]), good[len(good)-8:]...), "footer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := oneSet(Spec{Source: "parquet", Path: write(t, "bad.parquet", c.data)}).Get("d")
			wantFault(t, err, fault.Data, "bad.parquet: ", c.want)
		})
	}
}

func TestParquetPaths(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ path, want string }{
		{"none.parquet", "none.parquet: there is no such file"},
		{"*.parquet", "*.parquet: no file matches"},
		{".", "no regular file"},
	} {
		_, err := NewSet(map[string]Spec{"d": {Source: "parquet", Path: c.path}}, 1, dir).Get("d")
		wantFault(t, err, fault.Data, dir, c.want)
	}
	_, err := NewSet(map[string]Spec{"d": {Source: "parquet", Path: "[a"}}, 1, dir).Get("d")
	wantFault(t, err, fault.Config, "the pattern is wrong")
}

// A file whose schema is not the wanted one is refused before a row is read.
func TestParquetSchemaMismatch(t *testing.T) {
	f, i := parquet.Leaf(parquet.FloatType), parquet.Int(64)
	x := parquet.List(f)
	good := [][]cell{{{0, 0, int64(1)}}, {{0, 1, float32(1)}}}
	for _, c := range []struct {
		name   string
		schema parquet.Group
		row    [][]cell
		spec   Spec
		want   []string
	}{
		{"missing x", parquet.Group{"id": i, "xs": x}, good, Spec{}, []string{"no column x (did you mean xs?)", "it has id (INT(64,true)), xs (list of FLOAT)", "`x`"}},
		{"missing label", parquet.Group{"class": i, "x": x}, good, Spec{Label: "clas"}, []string{"no column clas (did you mean class?)", "`label`"}},
		{"missing id", parquet.Group{"key": i, "x": x}, good, Spec{ID: "name"}, []string{"no column name; it has key", "`id`"}},
		{"x is a number", parquet.Group{"label": i, "x": f}, [][]cell{req(int64(1)), req(float32(1))}, Spec{}, []string{"column x: FLOAT, wanted a list of numbers", "one list"}},
		{"x is text", parquet.Group{"label": i, "x": parquet.String()}, [][]cell{req(int64(1)), req("a")}, Spec{}, []string{"column x: text, wanted a list of numbers", "encoded pictures"}},
		{"x is a list of text", parquet.Group{"label": i, "x": parquet.List(parquet.String())}, [][]cell{req(int64(1)), {{0, 1, "a"}}}, Spec{}, []string{"column x: a list of text, wanted a list of numbers"}},
		{"x is a list of dates", parquet.Group{"label": i, "x": parquet.List(parquet.Date())}, [][]cell{req(int64(1)), {{0, 1, int32(1)}}}, Spec{}, []string{"column x: a list of DATE, wanted"}},
		{"x is a list of lists", parquet.Group{"label": i, "x": parquet.List(parquet.List(f))}, [][]cell{req(int64(1)), {{0, 2, float32(1)}}}, Spec{}, []string{"column x: a list of lists", "flatten"}},
		{"x is a list of structs", parquet.Group{"label": i, "x": parquet.List(parquet.Group{"a": f, "b": f})}, [][]cell{req(int64(1)), {{0, 1, float32(1)}}, {{0, 1, float32(1)}}}, Spec{}, []string{"column x: a list of structs"}},
		{"x is a picture", parquet.Group{"label": i, "x": parquet.Group{"bytes": parquet.Leaf(parquet.ByteArrayType), "path": parquet.String()}}, [][]cell{req(int64(1)), req([]byte("a")), req("b")}, Spec{}, []string{"column x: struct of bytes and path, wanted a list of numbers", "store the pixel values"}},
		{"x is a map", parquet.Group{"label": i, "x": parquet.Map(parquet.String(), f)}, [][]cell{req(int64(1)), {{0, 1, "a"}}, {{0, 1, float32(1)}}}, Spec{}, []string{"column x: ", "wanted a list of numbers"}},
		{"label is text", parquet.Group{"label": parquet.String(), "x": x}, [][]cell{req("cat"), {{0, 1, float32(1)}}}, Spec{}, []string{"column label: text, wanted integers: class numbers from 0", "store each class as its number"}},
		{"label is a fraction", parquet.Group{"label": f, "x": x}, [][]cell{req(float32(1)), {{0, 1, float32(1)}}}, Spec{}, []string{"column label: FLOAT, wanted integers"}},
		{"label is a list", parquet.Group{"label": parquet.Repeated(i), "x": x}, [][]cell{{{0, 1, int64(1)}}, {{0, 1, float32(1)}}}, Spec{}, []string{"column label: repeated INT(64,true), wanted integers"}},
		{"label is a decimal", parquet.Group{"label": parquet.Decimal(2, 9, parquet.Int32Type), "x": x}, [][]cell{req(int32(1)), {{0, 1, float32(1)}}}, Spec{}, []string{"column label: DECIMAL", "wanted integers"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Source, c.spec.Path = "parquet", write(t, "a.parquet", parquetBytes(t, c.schema, 1, [][][]cell{c.row}))
			_, err := oneSet(c.spec).Get("d")
			wantFault(t, err, fault.Data, append(c.want, "a.parquet: ")...)
		})
	}
}

// badRow is a row that is wrong in one way.
type badRow struct {
	name   string
	x      []cell
	label  any
	status string
	where  string // place and finding of the error
}

func badRows() []badRow {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	return []badRow{
		{"short", list(float32(1), float32(2)), int32(1), StatusWrongLength, "row group 1, row 3, column x: list of 2 values, wanted 3 (shape 3)"},
		{"long", list(float32(1), float32(2), float32(3), float32(4)), int32(1), StatusWrongLength, "column x: list of 4 values, wanted 3"},
		{"empty", list(), int32(1), StatusWrongLength, "column x: list of 0 values, wanted 3"},
		{"null list", nullList(), int32(1), StatusNullX, "row group 1, row 3, column x: x is null"},
		{"null value", list(float32(1), nil, float32(3)), int32(1), StatusNullValue, "column x: null at position 1 of x"},
		{"NaN", list(float32(1), float32(2), nan), int32(1), StatusNaN, "column x: NaN at position 2 of x"},
		{"infinity", list(inf, float32(2), float32(3)), int32(1), StatusInfinite, "column x: infinity"},
		{"label too large", list(float32(1), float32(2), float32(4)), int32(3), StatusLabelRange, "row group 1, row 3, column label: label 3, wanted 0 to 2"},
		{"label negative", list(float32(1), float32(2), float32(4)), int32(-1), StatusLabelRange, "column label: label -1, wanted 0 to 2; store null"},
		{"two things", nullList(), int32(9), StatusNullX, "column x: x is null"},
	}
}

func TestParquetBadRows(t *testing.T) {
	for _, c := range badRows() {
		t.Run(c.name, func(t *testing.T) {
			rows := plainRows(6)
			rows[3][0], rows[3][2] = opt(c.label), c.x
			path := write(t, "a.parquet", parquetBytes(t, plainSchema(), 2, rows))
			spec := Spec{Source: "parquet", Path: path, NumClasses: 3, Shape: []int{3}}
			_, err := tryCollect(checked(t, oneSet(spec)), "d", 4)
			wantFault(t, err, fault.Data, "a.parquet: ", c.where)

			spec.BadRows = "keep"
			got := collect(t, checked(t, oneSet(spec)), "d", 4)
			want := plainWant(0, 6)
			copy(want.X[9:], []float32{0, 0, 0})
			want.Status[3], want.Reason[3] = c.status, got.Reason[3]
			want.Labels[3], want.HasLabel[3] = 1, true
			if c.label != int32(1) {
				want.Labels[3], want.HasLabel[3] = 0, false
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if got.Reason[3] == "" {
				t.Error("no reason")
			}
		})
	}
}

// A null label is an unlabelled row, not a bad one.
func TestParquetNullLabel(t *testing.T) {
	rows := plainRows(3)
	rows[1][0] = opt(nil)
	got := collect(t, oneSet(Spec{Source: "parquet", Path: write(t, "a.parquet", parquetBytes(t, plainSchema(), 9, rows)), NumClasses: 3}), "d", 9)
	if diff := cmp.Diff([]bool{true, false, true}, got.HasLabel); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{StatusOK, StatusOK, StatusOK}, got.Status); diff != "" {
		t.Error(diff)
	}
}

func TestParquetDoubleBeyondFloat32(t *testing.T) {
	x := parquet.List(parquet.Leaf(parquet.DoubleType))
	data := parquetBytes(t, parquet.Group{"x": x}, 9, [][][]cell{{{{0, 1, 1e300}}}})
	_, err := tryCollect(oneSet(Spec{Source: "parquet", Path: write(t, "a.parquet", data)}), "d", 1)
	wantFault(t, err, fault.Data, "row 0, column x: infinity (or a number beyond float32)")
}

func TestParquetNoRows(t *testing.T) {
	path := write(t, "a.parquet", parquetBytes(t, plainSchema(), 9, nil))
	_, err := oneSet(Spec{Source: "parquet", Path: path}).Get("d")
	wantFault(t, err, fault.Data, "a.parquet: no rows")
	path = write(t, "a.parquet", parquetBytes(t, plainSchema(), 9, plainRows(5)))
	_, err = oneSet(Spec{Source: "parquet", Path: path, Skip: 5}).Get("d")
	wantFault(t, err, fault.Data, "a.parquet: skip leaves out all of its 5 rows")
	path = write(t, "a.parquet", parquetBytes(t, parquet.Group{"x": floatList()}, 9, [][][]cell{{nullList()}, {list()}}))
	_, err = oneSet(Spec{Source: "parquet", Path: path}).Get("d")
	wantFault(t, err, fault.Data, "a.parquet: the shape of a sample cannot be taken", "set shape")
}

// The first list that is there decides the shape where none is set.
func TestParquetShapeOfFirstList(t *testing.T) {
	x := floatList()
	rows := [][][]cell{{nullList()}, {list()}, {list(float32(1), float32(2))}, {list(float32(1))}}
	s := oneSet(Spec{Source: "parquet", Path: write(t, "a.parquet", parquetBytes(t, parquet.Group{"x": x}, 1, rows)), BadRows: "keep"})
	d, err := s.Get("d")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{2}, d.Info().Shape); diff != "" {
		t.Error(diff)
	}
	got := collect(t, s, "d", 10)
	if diff := cmp.Diff([]string{StatusNullX, StatusWrongLength, StatusOK, StatusWrongLength}, got.Status); diff != "" {
		t.Error(diff)
	}
	if want := "list of 1 values, wanted 2 (the length of the first list, because no shape is set)"; got.Reason[3] != want {
		t.Errorf("reason %q, want %q", got.Reason[3], want)
	}
}

func TestParquetFilesMustFit(t *testing.T) {
	x8, x := parquet.List(parquet.Uint(8)), parquet.List(parquet.Leaf(parquet.FloatType))
	fx, bx := []cell{{0, 1, float32(1)}}, []cell{{0, 1, uint32(1)}}
	for _, c := range []struct {
		name string
		a, b []byte
		want string
	}{
		{"x", parquetBytes(t, parquet.Group{"x": x}, 1, [][][]cell{{fx}}), parquetBytes(t, parquet.Group{"x": x8}, 1, [][][]cell{{bx}}), "column x: a list of uint8, but a list of other numbers in"},
		{"label", parquetBytes(t, parquet.Group{"x": x}, 1, [][][]cell{{fx}}), parquetBytes(t, parquet.Group{"label": parquet.Int(8), "x": x}, 1, [][][]cell{{req(int32(0)), fx}}), "column label: there, but missing in"},
		{"id", parquetBytes(t, parquet.Group{"sample_id": parquet.String(), "x": x}, 1, [][][]cell{{req("a"), fx}}), parquetBytes(t, parquet.Group{"sample_id": parquet.Int(8), "x": x}, 1, [][][]cell{{req(int32(0)), fx}}), "column id: an integer or missing, but text in"},
	} {
		dir := t.TempDir()
		for name, data := range map[string][]byte{"a.parquet": c.a, "b.parquet": c.b} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := NewSet(map[string]Spec{"d": {Source: "parquet", Path: "*.parquet"}}, 1, dir).Get("d")
		wantFault(t, err, fault.Data, "b.parquet", "a.parquet", c.want)
	}
}

// A file that changes between Get and Open is noticed.
func TestParquetChangedFile(t *testing.T) {
	path := write(t, "a.parquet", parquetBytes(t, plainSchema(), 9, plainRows(5)))
	s := oneSet(Spec{Source: "parquet", Path: path})
	if _, err := s.Get("d"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, parquetBytes(t, plainSchema(), 9, plainRows(4)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := tryCollect(s, "d", 9)
	wantFault(t, err, fault.Data, "a.parquet: 4 rows, 5 when it was first opened")
}

// The published EMNIST file holds PNG pictures in a struct.
func TestEMNISTFileIsRefused(t *testing.T) {
	path := filepath.Join(testdata.Dir(t), "emnist-mnist", "test.parquet")
	_, err := oneSet(Spec{Source: "parquet", Path: path}).Get("d")
	wantFault(t, err, fault.Data, "test.parquet: no column x", "image (struct of bytes and path)", "label (INT64)")
	_, err = oneSet(Spec{Source: "parquet", Path: path, X: "image"}).Get("d")
	wantFault(t, err, fault.Data, "test.parquet: column image: struct of bytes and path, wanted a list of numbers", "encoded pictures are not decoded here", "uint8 or float")
}

// fakePages gives pages made of levels and values, to cut rows where parquet-go's writer does not.
type fakePages struct{ left []fakePage }

type fakePage struct {
	parquet.Page
	rep, def []byte
	values   []float32
}

func (f *fakePages) ReadPage() (parquet.Page, error) {
	if len(f.left) == 0 {
		return nil, io.EOF
	}
	p := f.left[0]
	f.left = f.left[1:]
	return p, nil
}

func (f *fakePages) SeekToRow(int64) error        { return errors.New("not supported") }
func (f *fakePages) Close() error                 { return nil }
func (p fakePage) RepetitionLevels() []byte       { return p.rep }
func (p fakePage) DefinitionLevels() []byte       { return p.def }
func (p fakePage) Data() encoding.Values          { return encoding.FloatValues(p.values) }
func (p fakePage) Dictionary() parquet.Dictionary { return nil }
func (p fakePage) NumValues() int64               { return int64(len(p.def)) }

// Rows of 3, 1 (null), 3 and 0 values in pages of every size.
func TestListCursorOverPages(t *testing.T) {
	rep := []byte{0, 1, 1, 0, 0, 1, 1, 0}
	def := []byte{3, 3, 3, 0, 3, 2, 3, 1}
	values := []float32{1, 2, 3, 4, 6}
	for size := 1; size <= len(rep); size++ {
		var all []fakePage
		at := 0
		for i := 0; i < len(rep); i += size {
			p := fakePage{rep: rep[i:min(i+size, len(rep))], def: def[i:min(i+size, len(rep))]}
			n := bytes.Count(p.def, []byte{3})
			p.values = values[at : at+n]
			at += n
			all = append(all, p, fakePage{})
		}
		c := &listCursor{
			pages: pages{source: &fakePages{all}}, col: listColumn{present: 1, repeated: 2, max: 3}, width: 3,
			floats: decoder[float32]{cast: toFloats(false)},
		}
		for i, want := range []struct {
			row listRow
			x   []float32
		}{
			{listRow{3, false, -1}, []float32{1, 2, 3}},
			{listRow{0, true, -1}, []float32{-9, -9, -9}},
			{listRow{3, false, 1}, []float32{4, -9, 6}},
			{listRow{0, false, -1}, []float32{-9, -9, -9}},
		} {
			x := []float32{-9, -9, -9}
			row, err := c.next(x, nil)
			if err != nil || row != want.row || !cmp.Equal(x, want.x) {
				t.Errorf("pages of %d, row %d: %+v %v %v, want %+v %v", size, i, row, x, err, want.row, want.x)
			}
		}
		if _, err := c.next(nil, nil); err != errShort {
			t.Errorf("pages of %d: after the last row %v, want %v", size, err, errShort)
		}
	}
	c := &listCursor{pages: pages{source: &fakePages{[]fakePage{{rep: []byte{1}, def: []byte{3}, values: []float32{1}}}}}, col: listColumn{max: 3}, width: 1}
	if _, err := c.next(nil, nil); err == nil {
		t.Error("a column that starts within a row is accepted")
	}
}
