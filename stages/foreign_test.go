package stages

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/testdata"
	"github.com/jempipe/jempipe/outputs"
)

// foreignOf is a pipeline on a model file instead of a train stage.
const foreignOf = `
version: 1
name: f
seed: 3
runtime: {provider: cpu, threads: 2}
data:
  valid: {source: "builtin:digits", split: valid}
  test:  {source: "builtin:digits", split: test}
  noise: {derive: uniform_noise, of: test}
stages:
  model: {onnx: model.onnx}
  export: {}
  infer: {id: [valid, test], ood: [noise], batch_size: 64}
  sgld: {start: noise, chains: 5, steps: 4, keep_every: 2}
  by_class: {kind: sgld, start: data, data: valid, classes: [3, 7], chains: 4, steps: 3, noise_std: 0}
  walks: {kind: sgld, start: data, data: valid, classes: [3, 7], chains: 4, steps: 3, noise_std: 0, steps_per_call: 2}
  calibrate: {evaluate: test}
  ood: {ood: [noise]}
  report: {}
`

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func predictions(t *testing.T, run, stage, dataset string) []outputs.Prediction[int64] {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(run, stage, "predictions", "dataset="+dataset, "*.parquet"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	rows, err := outputs.ReadAll[outputs.Prediction[int64]](paths[0])
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// A model that was exported here, brought back as the file of a stranger, must give what it gave before: logits,
// energies, and the gradient that is now built from the file.
func TestForeignModelGivesWhatItsTrainingGave(t *testing.T) {
	dir := t.TempDir()
	own := mustExecute(t, dir, digits)
	copyFile(t, filepath.Join(own, "export", "models", classifierFile), filepath.Join(dir, "model.onnx"))
	run := mustExecute(t, dir, foreignOf)
	for _, set := range []string{"test", "noise"} {
		want, got := predictions(t, own, "infer", set), predictions(t, run, "infer", set)
		for i := range want {
			w, g := want[i], got[i]
			if d := math.Abs(*w.Energy - *g.Energy); !(d <= 1e-4*(1+math.Abs(*w.Energy))) {
				t.Fatalf("%s row %d: energy %v, before %v", set, i, *g.Energy, *w.Energy)
			}
			// Here the preprocessing, 0..16 to -1..1, is a part of the model, so that the gradient is that of raw values.
			if d := math.Abs(*w.ScoreNorm - 8**g.ScoreNorm); !(d <= 1e-3*(1e-3+*w.ScoreNorm)) {
				t.Fatalf("%s row %d: score norm %v, before %v", set, i, 8**g.ScoreNorm, *w.ScoreNorm)
			}
		}
	}
	samples, err := outputs.ReadAll[outputs.Sample](filepath.Join(run, "by_class", "tables", "samples.parquet"))
	if err != nil || len(samples) != 8 || *samples[1].Class != 7 {
		t.Errorf("samples by class: %d rows, %v", len(samples), err)
	}
	walked, err := outputs.ReadAll[outputs.Sample](filepath.Join(run, "walks", "tables", "samples.parquet"))
	if err != nil || len(walked) != 8 {
		t.Fatalf("samples of several steps a call: %d rows, %v", len(walked), err)
	}
	for i, w := range samples {
		for j, v := range w.X {
			if math.Abs(float64(walked[i].X[j]-v)) > 16e-5 { // of a range of 16
				t.Fatalf("chain %d, step %d, value %d: %v with several steps a call, %v with one", w.Chain, w.Step, j, walked[i].X[j], v)
			}
		}
		if i >= 4 && samples[i].X[20] == samples[i-4].X[20] && samples[i].X[30] == samples[i-4].X[30] {
			t.Fatalf("chain %d has not moved", w.Chain)
		}
	}
	var manifest struct{ Details map[string]json.RawMessage }
	data, err := os.ReadFile(filepath.Join(run, "export", "_stage.json"))
	if err != nil || json.Unmarshal(data, &manifest) != nil {
		t.Fatal(err)
	}
	if text := string(manifest.Details["gradient_test"]); !strings.Contains(text, `"coordinates"`) {
		t.Errorf("the export's details have no gradient_test: %s", text)
	}
}

// tabular writes a CSV file of numbers with the class last as a data set in Parquet.
func tabular(t *testing.T, csv, to string) {
	t.Helper()
	shape, x, labels := testdata.Features(t, csv)
	type row struct {
		X     []float32 `parquet:"x,list"`
		Label int32     `parquet:"label"`
	}
	w, err := outputs.Create[row](to, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range shape[0] {
		if err := w.Write([]row{{x[i*shape[1] : (i+1)*shape[1]], labels[i]}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Tree models give probabilities: what needs no more is there, the rest is null and says why.
func TestTreeModels(t *testing.T) {
	data := testdata.Dir(t)
	for _, c := range []struct {
		model, csv, classes string
		right               int    // as the file's makers count it
		energy, score       string // why these are null; "" where they are not
	}{
		{"wine-xgboost-trees", "wine", "[a, b, c]", 178, "probabilities_only", "probabilities_only"},
		{"iris-randomforest-sklearn", "iris", "[setosa, versicolor, virginica]", 148, "probabilities_only", "probabilities_only"},
		{"wine-lgbm-hummingbird", "wine", "[a, b, c]", 176, "", "no_gradient"},
	} {
		t.Run(c.model, func(t *testing.T) {
			dir := t.TempDir()
			tabular(t, filepath.Join(data, "tabular", c.csv+".csv.gz"), filepath.Join(dir, "x.parquet"))
			copyFile(t, filepath.Join(data, "onnx/models", c.model+".onnx"), filepath.Join(dir, "model.onnx"))
			run := mustExecute(t, dir, fmt.Sprintf(`
version: 1
name: trees
runtime: {provider: cpu, threads: 2}
data:
  fit:  {source: parquet, path: x.parquet, range: [0, 100], class_names: %[1]s, limit: 75}
  test: {source: parquet, path: x.parquet, range: [0, 100], class_names: %[1]s}
  noise: {derive: uniform_noise, of: test}
stages:
  model: {onnx: model.onnx, class_names: %[1]s}
  export: {probe: test}
  infer: {id: [fit, test], ood: noise}
  calibrate: {fit: fit, evaluate: test}
  ood: {id: test, ood: noise, thresholds_on: ""}
  report: {}
`, c.classes))
			right := 0
			for _, p := range predictions(t, run, "ood", "test") {
				if *p.Correct {
					right++
				}
				if p.ConfCalibrated == nil {
					t.Fatalf("row %d has no calibrated confidence", p.SampleID)
				}
				if p.Confidence == nil || p.OODMSP == nil || p.OODEntropy == nil || p.OODMargin == nil || p.OODMaxLogit == nil {
					t.Fatalf("row %d lacks what logits give: %+v", p.SampleID, p)
				}
				if (p.Energy == nil) != (c.energy != "") || (p.OODEnergy == nil) != (c.energy != "") || p.ScoreNorm != nil || p.OODApproximateMass != nil ||
					c.energy != "" && (p.EnergyReason == nil || *p.EnergyReason != c.energy) {
					t.Fatalf("row %d has what probabilities do not give: %+v", p.SampleID, p)
				}
			}
			if page, err := os.ReadFile(filepath.Join(run, "report", "index.html")); err != nil || strings.Contains(string(page), "the same score") {
				t.Errorf("the report takes null for a constant score: %v", err)
			}
			if right != c.right {
				t.Errorf("%d answers are right, want %d", right, c.right)
			}
			metrics, err := outputs.ReadAll[outputs.OODMetric](filepath.Join(run, "ood", "tables", "ood_metrics.parquet"))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range metrics {
				why := map[string]string{"energy": c.energy, "approximate_mass": c.score}[m.Detector]
				if (why != "") != (m.Value == nil) && m.Metric == outputs.MetricAUROC || why != "" && (m.Reason == nil || *m.Reason != why) {
					t.Errorf("%s of %s: value %v, reason %v", m.Metric, m.Detector, m.Value, m.Reason)
				}
			}
			if _, err := os.Stat(filepath.Join(run, "export", "models", scoreFile)); !os.IsNotExist(err) {
				t.Errorf("there is a score.onnx: %v", err)
			}
		})
	}
}
