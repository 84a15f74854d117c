package outputs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/jempipe/jempipe/internal/fault"
)

var update = flag.Bool("update", false, "rewrite golden files")

// predictions are rows with every kind of value: present, zero, null and empty.
func predictions() []Prediction[int64] {
	return []Prediction[int64]{
		{
			SampleID: 0, Dataset: "test", Role: "id", Label: new(int32(0)), LabelName: new(""), Pred: new(int32(0)),
			PredName: new("zero"), Correct: new(false), Confidence: new(0.0), Margin: new(0.0), Entropy: new(0.0),
			Logits: []float32{}, Probs: []float32{0}, Energy: new(0.0), ScoreNorm: new(0.0), OODMSP: new(-1.0),
			FlagMSP: new(false), SetSize: new(int32(0)), Status: "ok", Tie: new(false),
		},
		{SampleID: -1, Dataset: "test", Role: "ood", Status: "nan_logits", StatusReason: new("1 of 3 logits is NaN")},
		{
			SampleID: math.MaxInt64, Dataset: "test", Role: "id", Label: new(int32(2)), LabelName: new("naïve <b>"),
			Logits: []float32{1, -2, 3.5}, Energy: new(math.Inf(1)), OODEnergy: new(math.Copysign(0, -1)), Status: "ok",
		},
	}
}

func write[T any](t testing.TB, rows []T, batches ...int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	w, err := Create[T](path, Meta{ToolVersion: "1.2.3", ClassNames: []string{"a", "b"}}.Map())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range batches {
		n = min(n, len(rows))
		if err := w.Write(rows[:n]); err != nil {
			t.Fatal(err)
		}
		rows = rows[n:]
	}
	if err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRoundTripKeepsZeroNullAndEmpty(t *testing.T) {
	want := predictions()
	got, err := ReadAll[Prediction[int64]](write(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
	if !math.Signbit(*got[2].OODEnergy) {
		t.Error("-0 became 0")
	}
	texts := []Prediction[string]{{SampleID: "", Status: "ok"}, {SampleID: "a/b.png", Status: "ok"}}
	read, err := ReadAll[Prediction[string]](write(t, texts))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(texts, read); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
}

func TestEmptyTableRoundTrips(t *testing.T) {
	got, err := ReadAll[Training](write(t, []Training{}))
	if err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

// curve is n rows with values that do not compress to nothing.
func curve(n int) []ROC {
	rows := make([]ROC, n)
	for i := range rows {
		rows[i] = ROC{IDDataset: "test", OODDataset: fmt.Sprint("ood", i%3), Detector: "energy", Point: int32(i),
			Threshold: new(math.Sqrt(float64(i))), TPR: math.Sin(float64(i)), FPR: 0}
		if i%5 == 0 {
			rows[i].Threshold = nil
		}
	}
	return rows
}

func TestReadGivesEveryRowAtAnySize(t *testing.T) {
	for _, n := range []int{1, 7, readRows - 1, readRows, readRows + 1, maxGroupRows + 1} {
		rows := curve(n)
		var kept []ROC
		err := Read(write(t, rows), func(batch []ROC) error {
			kept = append(kept, batch...) // strings must not point into pages that are used again
			return nil
		})
		if err != nil {
			t.Fatalf("%d rows: %v", n, err)
		}
		if !cmp.Equal(rows, kept) {
			t.Errorf("%d rows: what was read differs", n)
		}
	}
}

func TestSameRowsGiveTheSameBytes(t *testing.T) {
	rows := curve(maxGroupRows + 500)
	want, err := os.ReadFile(write(t, rows))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	for range 12 {
		var batches []int
		for range r.IntN(6) {
			batches = append(batches, []int{0, 1, 7, 1000, maxPageRows - 1, maxPageRows, 30000}[r.IntN(7)])
		}
		got, err := os.ReadFile(write(t, rows, batches...))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Fatalf("batches %v give other bytes", batches)
		}
	}
}

func footer(t testing.TB, path string) *parquet.File {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestRowGroupsAreBounded(t *testing.T) {
	wide := make([]Sample, 20)
	for i := range wide {
		wide[i] = Sample{Chain: int64(i), X: make([]float32, maxGroupBytes/4/8)}
		for j := range wide[i].X {
			wide[i].X[j] = float32(i*j) * 1e-3
		}
	}
	for _, c := range []struct {
		path string
		max  int64
		n    int
	}{
		{write(t, curve(2*maxGroupRows+1), 100), maxGroupRows, 3},
		{write(t, wide, 3), 8, 3},
	} {
		groups := footer(t, c.path).RowGroups()
		if len(groups) != c.n {
			t.Errorf("%d row groups, want %d", len(groups), c.n)
		}
		for _, g := range groups {
			if g.NumRows() > c.max {
				t.Errorf("row group of %d rows, want at most %d", g.NumRows(), c.max)
			}
		}
	}
}

func TestListsCarryNoBounds(t *testing.T) {
	rows := predictions()
	f := footer(t, write(t, rows))
	for _, chunk := range f.Metadata().RowGroups[0].Columns {
		path := strings.Join(chunk.MetaData.PathInSchema, ".")
		bounds := len(chunk.MetaData.Statistics.MaxValue) > 0
		if list := strings.Contains(path, ".list."); list && bounds {
			t.Errorf("column %s has bounds", path)
		} else if path == "sample_id" && !bounds {
			t.Errorf("column %s has no bounds", path)
		}
	}
}

func TestNaNIsRefused(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		column string
		row    Prediction[int64]
	}{
		{"energy", Prediction[int64]{Energy: &nan}},
		{"conf_calibrated", Prediction[int64]{ConfCalibrated: &nan}},
		{"logits", Prediction[int64]{Logits: []float32{0, float32(nan)}}},
	} {
		path := filepath.Join(t.TempDir(), "p.parquet")
		w, err := Create[Prediction[int64]](path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(predictions()); err != nil {
			t.Fatal(err)
		}
		err = w.Write([]Prediction[int64]{{}, c.row})
		if err == nil || !strings.Contains(err.Error(), "row 4, column "+c.column) {
			t.Errorf("%s: %v, want row 4 and the column named", c.column, err)
		}
		if again := w.Write(predictions()); !errors.Is(again, err) {
			t.Errorf("%s: a write after the failure gives %v", c.column, again)
		}
		if closed := w.Close(); !errors.Is(closed, err) {
			t.Errorf("%s: close after the failure gives %v", c.column, closed)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the broken file stays: %v", c.column, err)
		}
	}
	_, err := Create[ROC](filepath.Join(t.TempDir(), "roc.parquet"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteAll(filepath.Join(t.TempDir(), "roc.parquet"), nil, []ROC{{TPR: nan}}); err == nil {
		t.Error("NaN in a required column is accepted")
	}
	if Defined(nan) != nil || *Defined(0) != 0 {
		t.Error("Defined does not keep numbers and drop NaN")
	}
}

func TestMetaRoundTrips(t *testing.T) {
	want := Meta{
		ToolVersion: "1.2.3", ConfigHash: "sha256:c", ModelHash: "sha256:m", Provider: "cpu", Seed: new(uint64(0)),
		InputHashes: map[string]string{"b": "2", "a": "1"}, ClassNames: []string{"cat", "<dog>", "5\""},
		SampleShape: []int{1, 8, 8}, Extra: map[string]string{"threads": "2"},
	}
	path := filepath.Join(t.TempDir(), "t.parquet")
	if err := WriteAll(path, want.Map(), curve(3)); err != nil {
		t.Fatal(err)
	}
	got, err := ReadMeta(path)
	if err != nil {
		t.Fatal(err)
	}
	want.Directions = map[string]string{}
	for _, name := range []string{"msp", "max_logit", "energy", "entropy", "margin", "approximate_mass"} {
		want.Directions["ood_"+name] = LargerIsOOD
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
	var keys []string
	for _, kv := range footer(t, path).Metadata().KeyValueMetadata {
		keys = append(keys, kv.Key)
	}
	if !slices.IsSorted(keys) || len(keys) == 0 {
		t.Errorf("metadata keys are not sorted: %v", keys)
	}
}

func TestSchemasAndDocsAreAsPrinted(t *testing.T) {
	var b strings.Builder
	for _, table := range catalogue {
		fmt.Fprintf(&b, "%s\n\n", schemaOf(table.model))
	}
	golden(t, "schemas.txt", b.String())
	golden(t, "tables.md", MarkdownTables())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: go test -update rewrites it (-want +got)\n%s", path, diff)
	}
}

// TestEveryColumnIsDocumented also holds the rules that let values of every column be null or not: a nullable column
// is a pointer or a list, and nothing else is.
func TestEveryColumnIsDocumented(t *testing.T) {
	for _, table := range catalogue {
		for i := range table.model.NumField() {
			f := table.model.Field(i)
			tag := f.Tag.Get("parquet")
			nullable := strings.Contains(tag, ",optional")
			if k := f.Type.Kind(); nullable != (k == reflect.Pointer || k == reflect.Slice) {
				t.Errorf("%s.%s: %s with tag %q", table.name, f.Name, f.Type, tag)
			}
			doc := f.Tag.Get("doc")
			if !strings.HasSuffix(doc, ".") {
				t.Errorf("%s.%s: doc %q, want sentences", table.name, f.Name, doc)
			}
			if nullable && !strings.Contains(strings.ToLower(doc), "null") && !strings.HasPrefix(tag, "loss,") {
				t.Errorf("%s.%s: the doc does not say when the column is null", table.name, f.Name)
			}
		}
	}
}

func TestOtherSchemasAreRefused(t *testing.T) {
	type missing struct {
		IDDataset string `parquet:"id_dataset,dict"`
	}
	type wrongType struct {
		IDDataset  string   `parquet:"id_dataset"`
		OODDataset string   `parquet:"ood_dataset"`
		Detector   string   `parquet:"detector"`
		Point      int64    `parquet:"point"`
		Threshold  *float64 `parquet:"threshold,optional"`
		TPR        float64  `parquet:"tpr"`
		FPR        float64  `parquet:"fpr"`
	}
	type more struct {
		Added      *string  `parquet:"added,optional"`
		OODDataset string   `parquet:"ood_dataset"`
		IDDataset  string   `parquet:"id_dataset"`
		Detector   string   `parquet:"detector"`
		Point      int32    `parquet:"point"`
		Threshold  *float64 `parquet:"threshold,optional"`
		TPR        float64  `parquet:"tpr"`
		FPR        float64  `parquet:"fpr"`
	}
	refused(t, write(t, []missing{{}}), "ood_dataset", "missing")
	refused(t, write(t, []wrongType{{}}), "point", "int64", "int32")
	got, err := ReadAll[ROC](write(t, []more{{Added: new("x"), IDDataset: "a", OODDataset: "b", TPR: 0.5}}))
	if err != nil || len(got) != 1 || got[0].IDDataset != "a" || got[0].OODDataset != "b" || got[0].TPR != 0.5 {
		t.Errorf("further columns: got %+v, %v", got, err)
	}
	text := write(t, []Prediction[string]{{SampleID: "7"}})
	if _, err := ReadAll[Prediction[int64]](text); fault.KindOf(err) != fault.Data {
		t.Errorf("string ids read as numbers: %v", err)
	}
}

func refused(t *testing.T, path string, words ...string) {
	t.Helper()
	_, err := ReadAll[ROC](path)
	if fault.KindOf(err) != fault.Data {
		t.Errorf("%v, want a data fault", err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v: want %q named", err, word)
		}
	}
}

func TestFilesThatAreNoTables(t *testing.T) {
	for _, content := range []string{"", "PAR", "PAR1PAR1PAR1", "sample_id,label\n1,2\n"} {
		path := filepath.Join(t.TempDir(), "t.parquet")
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		refused(t, path, path)
	}
	refused(t, filepath.Join(t.TempDir(), "none.parquet"), "none.parquet")
}

// TestDamagedFiles flips bytes and cuts the end: whatever comes of it is an error or rows, never a panic.
func TestDamagedFiles(t *testing.T) {
	whole, err := os.ReadFile(write(t, predictions()))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "damaged.parquet")
	try := func(data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadAll[Prediction[int64]](path); err != nil && fault.KindOf(err) != fault.Data {
			t.Errorf("%v: want a data fault", err)
		}
	}
	for at := 0; at < len(whole); at += 5 {
		damaged := slices.Clone(whole)
		damaged[at] ^= 0x41
		try(damaged)
	}
	for n := 0; n < len(whole); n += 101 {
		try(whole[:n])
	}
}

func TestParts(t *testing.T) {
	dir := t.TempDir()
	if _, err := Parts(dir); fault.KindOf(err) != fault.Data {
		t.Errorf("no parts: %v", err)
	}
	for i := range 3 {
		if err := WriteAll(filepath.Join(dir, PartName(i, 3)), nil, curve(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(dir)
	if err != nil || len(parts) != 3 {
		t.Fatal(parts, err)
	}
	for i, p := range parts {
		if p.Index != i || p.Count != 3 || p.Rows != int64(i+1) || filepath.Base(p.Path) != fmt.Sprintf("part-0000%d-of-00003.parquet", i) {
			t.Errorf("part %d: %+v", i, p)
		}
	}
	if err := os.Remove(parts[1].Path); err != nil {
		t.Fatal(err)
	}
	if _, err := Parts(dir); fault.KindOf(err) != fault.Data {
		t.Errorf("a missing part: %v", err)
	}
}

func BenchmarkWritePredictions(b *testing.B) {
	rows := make([]Prediction[int64], 4096)
	for i := range rows {
		x := float64(i)
		rows[i] = Prediction[int64]{SampleID: int64(i), Dataset: "test", Role: "id", Label: new(int32(i % 10)),
			Pred: new(int32(i % 7)), Confidence: &x, Margin: &x, Entropy: &x, Logits: make([]float32, 10),
			Probs: make([]float32, 10), Energy: &x, OODMSP: &x, OODEnergy: &x, FlagEnergy: new(true), Status: "ok"}
		for j := range 10 {
			rows[i].Logits[j] = float32(math.Sin(float64(i*10 + j)))
		}
	}
	w, err := Create[Prediction[int64]](filepath.Join(b.TempDir(), "p.parquet"), nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := w.Write(rows); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(rows))/b.Elapsed().Seconds(), "rows/s")
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
