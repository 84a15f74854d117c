package stages

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/outputs"
)

// textRow is a row with a text id, and columns that nobody asked for.
type textRow struct {
	Name   string    `parquet:"name"`
	Pixels []float64 `parquet:"pixels,list"`
	Digit  *int64    `parquet:"digit,optional"`
	Note   string    `parquet:"note"`
}

// digitsAsParquet writes the built-in digits with text ids; change may spoil rows.
func digitsAsParquet(t *testing.T, path string, change func(i int, r *textRow)) {
	t.Helper()
	set := datasets.NewSet(map[string]datasets.Spec{"d": {Source: "builtin:digits", Split: "test"}}, 1, ".")
	ds, err := set.Get("d")
	if err != nil {
		t.Fatal(err)
	}
	all, err := datasets.ReadAll(context.Background(), ds, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]textRow, all.Len())
	for i := range rows {
		rows[i] = textRow{Name: fmt.Sprintf("digit-%04d", i), Digit: new(int64(all.Labels[i])), Note: "kept out"}
		for _, v := range all.X[i*64 : (i+1)*64] {
			rows[i].Pixels = append(rows[i].Pixels, float64(v))
		}
		if change != nil {
			change(i, &rows[i])
		}
	}
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
}

const fromParquet = `test:  {source: parquet, path: digits.parquet, x: pixels, label: digit, id: name, shape: [8, 8], num_classes: 10, range: [0, 16]KEEP}`

// Text ids, unlabelled rows and rows that cannot be used go through the whole pipeline and stay in every table.
func TestTextIDsAndBadRows(t *testing.T) {
	dir := t.TempDir()
	digitsAsParquet(t, filepath.Join(dir, "digits.parquet"), func(i int, r *textRow) {
		switch i {
		case 3:
			r.Pixels[10] = math.NaN()
		case 5:
			r.Pixels = r.Pixels[:60]
		case 7:
			r.Digit = nil
		case 9:
			r.Digit = new(int64(10))
		}
	})
	text := strings.Replace(digits, `test:  {source: "builtin:digits", split: test}`, strings.Replace(fromParquet, "KEEP", ", bad_rows: keep", 1), 1)
	run := mustExecute(t, dir, text)
	parts, err := outputs.Parts(filepath.Join(run, "ood", "predictions", "dataset=test"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := outputs.ReadAll[outputs.Prediction[string]](parts[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]string{3: datasets.StatusNaN, 5: datasets.StatusWrongLength, 9: datasets.StatusLabelRange}
	for i, r := range rows {
		status := want[i]
		if status == "" {
			status = datasets.StatusOK
		}
		if r.SampleID != fmt.Sprintf("digit-%04d", i) || r.Status != status || (status == datasets.StatusOK) != (r.Energy != nil) ||
			(status == datasets.StatusOK) != (r.StatusReason == nil) {
			t.Fatalf("row %d: %+v, want status %s", i, r, status)
		}
	}
	if len(rows) != 355 || rows[7].Label != nil || rows[7].Energy == nil || rows[7].Correct != nil {
		t.Errorf("%d rows; the unlabelled one is %+v", len(rows), rows[7])
	}
	for _, m := range readTable[outputs.CalibrationMetric](t, run, "calibrate", "calibration_metrics") {
		if m.N != 351 || m.NDropped != 4 {
			t.Fatalf("metric %+v: want 351 rows used and 4 left out", m)
		}
	}
	for _, m := range readTable[outputs.OODMetric](t, run, "ood", "ood_metrics") {
		if m.NID != 352 || m.NDroppedID != 3 || m.NOOD != 352 {
			t.Fatalf("metric %+v: want 352 ID rows, 3 of them left out", m)
		}
	}
	page, err := os.ReadFile(filepath.Join(run, "report", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "wrong_length") || !strings.Contains(string(page), "digit-") {
		t.Error("the report shows neither the bad rows nor text ids")
	}
}

// The same rows without keep are an error of the data that names the place, and nothing already computed is lost.
func TestBadRowFailsTheStage(t *testing.T) {
	dir := t.TempDir()
	digitsAsParquet(t, filepath.Join(dir, "digits.parquet"), func(i int, r *textRow) {
		if i == 200 {
			r.Pixels[0] = math.Inf(1)
		}
	})
	text := strings.Replace(digits, `test:  {source: "builtin:digits", split: test}`, strings.Replace(fromParquet, "KEEP", "", 1), 1)
	run, err := execute(t, dir, text)
	if err == nil || fault.KindOf(err) != fault.Data || !strings.Contains(err.Error(), "digits.parquet") || !strings.Contains(err.Error(), "row 200") {
		t.Fatalf("error %v, want one of the data that names file and row", err)
	}
	for stage, want := range map[string]bool{"train": true, "export": true, "infer": false} {
		if _, err := os.Stat(filepath.Join(run, stage)); (err == nil) != want {
			t.Errorf("stage %s is there: %t, want %t", stage, err == nil, want)
		}
	}
}

// Rows of a table are no pictures, but everything else is the same.
func TestTabularData(t *testing.T) {
	type flower struct {
		X     []float32 `parquet:"x,list"`
		Label int32     `parquet:"label"`
	}
	dir := t.TempDir()
	rows := make([]flower, 120)
	for i := range rows {
		k := i % 3
		for j := range 4 {
			rows[i].X = append(rows[i].X, float32(k)/2+float32((i*7+j*5)%11)/100)
		}
		rows[i].Label = int32(k)
	}
	if err := parquet.WriteFile(filepath.Join(dir, "flowers.parquet"), rows); err != nil {
		t.Fatal(err)
	}
	run := mustExecute(t, dir, `
version: 1
name: flowers
data:
  train: {source: parquet, path: flowers.parquet, limit: 60, class_names: [rose, tulip, lily], range: [0, 1.2]}
  valid: {source: parquet, path: flowers.parquet, skip: 60, limit: 30, class_names: [rose, tulip, lily], range: [0, 1.2]}
  test:  {source: parquet, path: flowers.parquet, skip: 90, class_names: [rose, tulip, lily], range: [0, 1.2]}
  noise: {derive: uniform_noise, of: test}
stages:
  train: {steps: 150, batch_size: 16, network: {arch: mlp, hidden: [16]}, optimizer: {lr: 0.02, warmup_steps: 10}, sampler: {steps: 5, buffer_size: 100}}
  export: {}
  infer: {id: [valid, test], ood: noise}
  sgld: {chains: 6, steps: 4}
  calibrate: {evaluate: test}
  ood: {ood: noise}
  report: {}
`)
	right := 0
	for _, p := range readPredictions(t, run, "ood", "test") {
		if *p.Correct {
			right++
		}
		if p.SampleID < 90 || *p.LabelName != []string{"rose", "tulip", "lily"}[*p.Label] {
			t.Fatalf("row %+v", p)
		}
	}
	if right < 27 {
		t.Errorf("%d of 30 rows right; the classes are far apart", right)
	}
	page, err := os.ReadFile(filepath.Join(run, "report", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(page), `class="blank"`) {
		t.Error("the report keeps places for pictures that there are none of")
	}
}
