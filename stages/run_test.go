package stages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
)

const digits = `
version: 1
name: t
seed: 3
runtime: {provider: cpu, threads: 2}
data:
  train: {source: "builtin:digits", split: train, limit: 200}
  valid: {source: "builtin:digits", split: valid}
  test:  {source: "builtin:digits", split: test}
  noise: {derive: uniform_noise, of: test}
  mixed: {derive: interpolation, of: test}
stages:
  train: {steps: 40, eval_every: 20, batch_size: 16, network: {channels: [4], hidden: [16]}, optimizer: {lr: 0.01, warmup_steps: 5}, sampler: {steps: 3, buffer_size: 100}}
  export: {}
  infer: {id: [valid, test], ood: [noise, mixed], batch_size: 64}
  sgld: {chains: 6, steps: 4, keep_every: 3}
  calibrate: {evaluate: test}
  ood: {ood: [noise, mixed]}
  report: {}
`

// execute runs a pipeline file in a folder and gives the run directory.
func execute(t *testing.T, dir, text string) (string, error) {
	t.Helper()
	if _, err := ort.Find(""); err != nil {
		t.Skipf("needs ONNX Runtime, run make onnxruntime: %v", err)
	}
	path := filepath.Join(dir, "pipeline.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := pipeline.Load(path, pipeline.NewRegistry(Kinds()...))
	if err != nil {
		return "", err
	}
	_, err = pipeline.Run(context.Background(), cfg, pipeline.Options{ToolVersion: "test", Log: slog.New(slog.DiscardHandler)})
	return cfg.RunDir(), err
}

func mustExecute(t *testing.T, dir, text string) string {
	t.Helper()
	run, err := execute(t, dir, text)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// hashes gives the SHA-256 of every result file of a run but those that hold times.
func hashes(t *testing.T, run string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(run, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "run.json" || strings.HasPrefix(d.Name(), ".lock") || strings.Contains(path, ".cache") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(run, path)
		sum := sha256.Sum256(data)
		out[rel] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readTable[T any](t *testing.T, run, stage, name string) []T {
	t.Helper()
	rows, err := outputs.ReadAll[T](filepath.Join(run, stage, "tables", name+".parquet"))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func readPredictions(t *testing.T, run, stage, dataset string) []outputs.Prediction[int64] {
	t.Helper()
	parts, err := outputs.Parts(filepath.Join(run, stage, "predictions", "dataset="+dataset))
	if err != nil {
		t.Fatal(err)
	}
	var rows []outputs.Prediction[int64]
	for _, p := range parts {
		part, err := outputs.ReadAll[outputs.Prediction[int64]](p.Path)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, part...)
	}
	return rows
}

func TestWholePipeline(t *testing.T) {
	run := mustExecute(t, t.TempDir(), digits)
	t.Run("same bytes in another folder", func(t *testing.T) {
		again := mustExecute(t, t.TempDir(), digits)
		if diff := cmp.Diff(hashes(t, run), hashes(t, again)); diff != "" {
			t.Errorf("files differ (-first +second):\n%s", diff)
		}
	})
	t.Run("training", func(t *testing.T) {
		rows := readTable[outputs.Training](t, run, "train", "training")
		if len(rows) != 40 || rows[19].ValidAccuracy == nil || rows[20].ValidAccuracy != nil || rows[39].Gap == nil {
			t.Errorf("%d rows; want 40, with validation at 20 and 40 and a gap in each", len(rows))
		}
	})
	t.Run("samples", func(t *testing.T) { checkSamples(t, run) })
	t.Run("predictions", func(t *testing.T) { checkPredictions(t, run) })
	t.Run("calibration", func(t *testing.T) { checkCalibration(t, run) })
	t.Run("ood", func(t *testing.T) { checkOOD(t, run) })
	t.Run("report", func(t *testing.T) {
		page, err := os.ReadFile(filepath.Join(run, "report", "index.html"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"temperature", "noise", "mixed", "data:image/png"} {
			if !strings.Contains(string(page), want) {
				t.Errorf("the report does not mention %q", want)
			}
		}
	})
	if n := ort.Live(); n != 0 {
		t.Errorf("%d native objects are still alive", n)
	}
}

func checkSamples(t *testing.T, run string) {
	rows := readTable[outputs.Sample](t, run, "sgld", "samples")
	var steps []int32
	for _, r := range rows {
		if r.Chain == 2 {
			steps = append(steps, r.Step)
		}
		if len(r.X) != 64 || r.Energy == nil || r.Class != nil {
			t.Fatalf("sample %+v: want 64 values, an energy and no class", r)
		}
		for _, v := range r.X {
			if v < -1e-4 || v > 16+1e-4 {
				t.Fatalf("sample value %v is outside the raw range [0,16]", v)
			}
		}
	}
	if len(rows) != 18 || !slices.Equal(steps, []int32{0, 3, 4}) {
		t.Errorf("%d rows, chain 2 at steps %v; want 18 rows and steps 0, 3, 4", len(rows), steps)
	}
}

func checkPredictions(t *testing.T, run string) {
	for dataset, n := range map[string]int{"valid": 357, "test": 355, "noise": 355, "mixed": 355} {
		raw, final := readPredictions(t, run, "infer", dataset), readPredictions(t, run, "ood", dataset)
		if len(raw) != n || len(final) != n {
			t.Errorf("%s: %d rows from infer and %d from ood, want %d", dataset, len(raw), len(final), n)
			continue
		}
		for i, p := range raw {
			id := dataset == "valid" || dataset == "test"
			if (p.Label != nil) != id || p.Status != "ok" || p.FlagEnergy != nil || p.ConfCalibrated != nil {
				t.Fatalf("%s row %d: %+v", dataset, i, p)
			}
			if *p.OODEnergy != *p.Energy || *p.OODApproximateMass != *p.ScoreNorm || *p.OODMSP != -*p.Confidence {
				t.Fatalf("%s row %d: detector scores do not follow from their columns", dataset, i)
			}
			d := final[i]
			if d.FlagEnergy == nil || d.ConfCalibrated == nil || d.SampleID != p.SampleID || *d.Energy != *p.Energy {
				t.Fatalf("%s row %d of ood: %+v", dataset, i, d)
			}
		}
	}
}

func checkCalibration(t *testing.T, run string) {
	fit := readTable[outputs.Recalibration](t, run, "calibrate", "recalibration")
	if len(fit) != 1 || fit[0].N != 357 || !(*fit[0].NLLAfter <= *fit[0].NLLBefore) {
		t.Errorf("recalibration %+v", fit)
	}
	sums := map[string]int64{}
	for _, b := range readTable[outputs.CalibrationBin](t, run, "calibrate", "calibration_bins") {
		sums[b.Map+" "+b.Scheme] += b.Count
	}
	for key, n := range sums {
		if n != 355 {
			t.Errorf("bins of %s hold %d rows, want 355", key, n)
		}
	}
	var confusion int64
	for _, c := range readTable[outputs.Confusion](t, run, "calibrate", "confusion") {
		confusion += c.Count
	}
	if len(sums) != 4 || confusion != 355 {
		t.Errorf("bins of %v; confusion matrix of %d rows", sums, confusion)
	}
}

func checkOOD(t *testing.T, run string) {
	thresholds := map[string]float64{}
	for _, th := range readTable[outputs.Threshold](t, run, "ood", "thresholds") {
		if th.IDDataset != "valid" || *th.Acceptance < 0.95 {
			t.Errorf("threshold %+v", th)
		}
		thresholds[th.Detector] = *th.Threshold
	}
	flagged := 0
	for _, p := range readPredictions(t, run, "ood", "noise") {
		if *p.FlagEnergy != (*p.OODEnergy >= thresholds["energy"]) {
			t.Fatalf("flag_energy %v at score %v and threshold %v", *p.FlagEnergy, *p.OODEnergy, thresholds["energy"])
		}
		if *p.FlagEnergy {
			flagged++
		}
	}
	found := false
	for _, m := range readTable[outputs.OODMetric](t, run, "ood", "ood_metrics") {
		if m.NID != 355 || m.NOOD != 355 {
			t.Fatalf("metric %+v: want 355 rows of each", m)
		}
		if m.Metric == outputs.MetricTPRAtThreshold && m.Detector == "energy" && m.OODDataset == "noise" {
			found = true
			if want := float64(flagged) / 355; math.Abs(*m.Value-want) > 1e-12 {
				t.Errorf("tpr_at_threshold %v, %d of 355 rows are flagged", *m.Value, flagged)
			}
		}
	}
	if !found {
		t.Error("no tpr_at_threshold for energy on noise")
	}
	counts := map[string]int64{}
	for _, h := range readTable[outputs.Histogram](t, run, "ood", "histograms") {
		counts[h.Dataset+" "+h.Detector] += h.Count
	}
	for key, n := range counts {
		if n != 355 {
			t.Errorf("histogram of %s holds %d rows, want 355", key, n)
		}
	}
}

// Every variant of objective and sampling must run, and the densities of class-conditional chains must be theirs.
func TestVariants(t *testing.T) {
	for name, change := range map[string][2]string{
		"classifier":        {"  train: {steps", "  train: {objective: classifier, steps"},
		"p(x,y)":            {"  train: {steps", "  train: {loss: {p_x_y: 0.5}, steps"},
		"class-conditional": {"sampler: {", "sampler: {class_conditional: true, "},
		"one batch, sgd":    {"optimizer: {", "one_batch: true, optimizer: {name: sgd, "},
		"mlp":               {"channels: [4]", "arch: mlp, activation: relu"},
		"flat":              {"channels: [4], hidden: [16]}", "arch: mlp, hidden: [16]}, preprocess: {layout: flat, mean: 4, std: 2}"},
		"no score":          {"infer: {", "infer: {score: false, "},
		"from noise":        {"sgld: {", "sgld: {start: noise, classes: [1, 7], "},
		"from data":         {"sgld: {", "sgld: {start: data, data: test, noise_std: 0, "},
		"many parts":        {"infer: {", "infer: {part_rows: 100, "},
		"mala":              {"sgld: {", "sgld: {start: data, data: test, correct: mala, temperature: 1e-3, step_size: 1e-3, clamp: false, "},
		"class gaussian":    {"sampler: {", "sampler: {start: class_gaussian, class_conditional: true, augment: {shift: 1, flip: true}, "},
		"schedule":          {"sampler: {", "sampler: {schedule: geometric, decay_to: 0.5, temperature: 1e-4, "},
		"training by walks": {"sampler: {", "sampler: {class_conditional: true, steps_per_call: 2, "},
		"short runs":        {"sampler: {", "sampler: {persistent: false, start: class_gaussian, "},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(strings.Replace(digits, change[0], change[1], 1), "steps: 40", "steps: 6", 1)
			if text == digits {
				t.Fatal("the variant changes nothing")
			}
			if name == "classifier" || name == "short runs" {
				text = strings.Replace(text, "sgld: {", "sgld: {start: noise, ", 1)
			}
			run := mustExecute(t, t.TempDir(), text)
			checkVariant(t, name, run)
		})
	}
	if n := ort.Live(); n != 0 {
		t.Errorf("%d native objects are still alive", n)
	}
}

func checkVariant(t *testing.T, name, run string) {
	switch name {
	case "from noise":
		for _, r := range readTable[outputs.Sample](t, run, "sgld", "samples") {
			if want := []int32{1, 7}[r.Chain%2]; r.Class == nil || *r.Class != want || *r.ClassName != fmt.Sprint(want) {
				t.Fatalf("chain %d has class %v, want %d", r.Chain, r.Class, want)
			}
		}
	case "no score":
		for _, m := range readTable[outputs.OODMetric](t, run, "ood", "ood_metrics") {
			if (m.Detector == "approximate_mass") != (m.Value == nil) || m.Value == nil && (m.Reason == nil || m.NDroppedID != 355) {
				t.Fatalf("metric %+v: only approximate_mass has no value, for a reason", m)
			}
		}
	case "many parts":
		parts, err := outputs.Parts(filepath.Join(run, "ood", "predictions", "dataset=test"))
		if err != nil || len(parts) != 4 || parts[3].Rows != 55 {
			t.Errorf("parts %+v, %v; want 4, the last with 55 rows", parts, err)
		}
	case "mala":
		var rate float64
		if err := json.Unmarshal(details(t, run, "sgld")["acceptance"], &rate); err != nil || !(rate > 0 && rate <= 1) {
			t.Errorf("acceptance %v, %v; want a share above 0", rate, err)
		}
	case "short runs":
		if _, err := os.Stat(filepath.Join(run, "train", "models", bufferFile)); err == nil {
			t.Error("there is a replay buffer")
		}
	case "classifier":
		if _, err := os.Stat(filepath.Join(run, "export", "models", langevinClassFile)); err == nil {
			t.Error("there is a graph of chains of p(x|y) for a classifier")
		}
		for _, r := range readTable[outputs.Training](t, run, "train", "training") {
			if r.Gap != nil || r.LossPX != nil || r.LossPYX == nil {
				t.Fatalf("record %+v: a classifier has no chains", r)
			}
		}
	}
}

// details gives what a stage reported.
func details(t *testing.T, run, stage string) map[string]json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(run, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	var record struct {
		Stages []struct {
			Name    string
			Details map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &record); err != nil {
		t.Fatal(err)
	}
	for _, s := range record.Stages {
		if s.Name == stage {
			return s.Details
		}
	}
	t.Fatalf("run.json has no stage %s", stage)
	return nil
}

// Several updates a call of the model give the samples of one, up to the last bits.
func TestStepsPerCallMoveLastBitsOnly(t *testing.T) {
	dir := t.TempDir()
	text := strings.Replace(strings.Replace(digits, "steps: 40", "steps: 6", 1), "sgld: {chains: 6, steps: 4,", "sgld: {classes: [1, 7, 3], chains: 6, steps: 11, steps_per_call: 1,", 1)
	run := mustExecute(t, dir, text)
	want := readTable[outputs.Sample](t, run, "sgld", "samples")
	run = mustExecute(t, dir, strings.Replace(text, "steps_per_call: 1", "steps_per_call: 2", 1))
	got := readTable[outputs.Sample](t, run, "sgld", "samples")
	if len(want) != 6*5 || len(got) != len(want) {
		t.Fatalf("%d and %d rows, want %d", len(want), len(got), 6*5)
	}
	for i, w := range want {
		g := got[i]
		if g.Chain != w.Chain || g.Step != w.Step || *g.Class != *w.Class || math.Abs(*g.Energy-*w.Energy) > 1e-5*(1+math.Abs(*w.Energy)) {
			t.Fatalf("row %d: %+v, want %+v", i, g, w)
		}
		for j, v := range w.X {
			if math.Abs(float64(g.X[j]-v)) > 16e-5 { // of a range of 16
				t.Fatalf("chain %d, step %d, value %d: %v, want %v", w.Chain, w.Step, j, g.X[j], v)
			}
		}
	}
}

// The exported chains were compared with the sampler.
func TestExportedChains(t *testing.T) {
	run := mustExecute(t, t.TempDir(), strings.Replace(digits, "steps: 40", "steps: 6", 1))
	d := details(t, run, "export")
	for key, file := range map[string]string{"langevin_difference": langevinFile, "langevin_class_difference": langevinClassFile} {
		var difference float64
		if err := json.Unmarshal(d[key], &difference); err != nil || difference > 1e-4 {
			t.Errorf("%s is %v, %v", key, difference, err)
		}
		m, err := ir.LoadFile(filepath.Join(run, "export", "models", file))
		if err != nil {
			t.Fatal(err)
		}
		if meta := ir.Metadata(m); meta[lower.MetaAffine] == "" || meta["sampler"] == "" || meta["weights_sha256"] == "" {
			t.Errorf("%s: metadata %v", file, meta)
		}
	}
}

// Another batch size may change logits in their last bits and nothing more.
func TestBatchSizeMovesLastBitsOnly(t *testing.T) {
	dir := t.TempDir()
	run := mustExecute(t, dir, digits)
	want := readPredictions(t, run, "infer", "test")
	run = mustExecute(t, dir, strings.Replace(digits, "batch_size: 64", "batch_size: 7", 1))
	for i, p := range readPredictions(t, run, "infer", "test") {
		for j, z := range p.Logits {
			if w := want[i].Logits[j]; math.Abs(float64(z-w)) > 1e-5*(1+math.Abs(float64(w))) {
				t.Fatalf("row %d: logit %d is %v in batches of 7, %v in batches of 64", i, j, z, w)
			}
		}
	}
}
