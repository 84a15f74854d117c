package stages

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
)

// small is a training run and its report, without what is not about training.
const small = `
version: 1
name: t
seed: 3
runtime: {provider: cpu, threads: 2}
data:
  train: {source: "builtin:digits", split: train, limit: 200}
  valid: {source: "builtin:digits", split: valid}
stages:
  train: {steps: 40, eval_every: 20, samples_every: 8, batch_size: 16, network: {channels: [4], hidden: [16]}, optimizer: {lr: 0.01, warmup_steps: 5}, sampler: {steps: 3, buffer_size: 3000}, checkpoint: {every: 10}, guard: {gap_steps: 20, gap_alarm: 50}}
  export: {}
  infer: {id: [valid]}
  report: {predictions: "", sampling: "", calibration: "", ood: ""}
`

func page(t *testing.T, run string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(run, "report", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Energies come from the graph with weights as inputs; predictions from the exported file, in another batch size.
func TestEnergiesOfTraining(t *testing.T) {
	run := mustExecute(t, t.TempDir(), small)
	predicted := readPredictions(t, run, "infer", "valid")
	n := map[string]int{}
	var before int64 = -1
	for _, e := range readTable[outputs.Energy](t, run, "train", "energies") {
		i := n[e.Set]
		n[e.Set]++
		if e.Energy == nil {
			t.Fatalf("row %d of %s has no energy", i, e.Set)
		}
		switch e.Set {
		case outputs.EnergyChains:
			if e.Chain == nil || *e.Chain <= before || *e.Chain >= 3000 || e.RowID != nil || e.Dataset != nil || e.Label != nil {
				t.Fatalf("chain %+v after chain %d: want rising numbers below 3000 and nothing of a row", e, before)
			}
			before = *e.Chain
		case outputs.EnergyValid:
			p := predicted[i]
			if want := *p.Energy; math.Abs(*e.Energy-want) > 1e-4*(1+math.Abs(want)) || *e.RowID != strconv.FormatInt(p.SampleID, 10) || *e.Label != *p.Label || *e.Dataset != "valid" {
				t.Fatalf("row %d of valid: energy %v, id %s, label %d; the predictions have %v, %d, %d", i, *e.Energy, *e.RowID, *e.Label, want, p.SampleID, *p.Label)
			}
		}
	}
	if n[outputs.EnergyTrain] != 200 || n[outputs.EnergyValid] != len(predicted) || n[outputs.EnergyChains] != maxEnergies {
		t.Errorf("rows %v; want all 200 and %d rows and %d chains", n, len(predicted), maxEnergies)
	}
	text := page(t, run)
	for _, want := range []string{"Energies at the end", "Chains at step 40", "train/samples/step-000040.png", "train/tables/energies.parquet", "Elements at the bounds"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not mention %q", want)
		}
	}
	if strings.Contains(text, "went wrong") {
		t.Error("the report tells of trouble in a run that had none")
	}
}

func TestEvenly(t *testing.T) {
	for _, c := range []struct{ n, limit int }{{0, 5}, {1, 5}, {5, 5}, {6, 5}, {1999, 2000}, {60000, 2000}} {
		got := evenly(c.n, c.limit)
		if len(got) != min(c.n, c.limit) {
			t.Errorf("%d of %d: %d numbers", c.limit, c.n, len(got))
		}
		for i, v := range got {
			if i == 0 && v != 0 || v >= c.n || i > 0 && v-got[i-1] > c.n/len(got)+1 || i > 0 && v <= got[i-1] {
				t.Errorf("%d of %d: place %d holds %d", c.limit, c.n, i, v)
			}
		}
	}
}

// Limits that the first attempt passes and a later one, with a thousandth of the learning rate, keeps to.
func TestRollbackIsToldInTheReport(t *testing.T) {
	for kind, change := range map[string][]string{
		"divergence": {"guard: {", "guard: {max_gap: 6, lr_factor: 0.001, ", "lr: 0.01", "lr: 0.5"},
		"collapse":   {"gap_alarm: 50", "gap_alarm: 1, lr_factor: 0.001"},
	} {
		t.Run(kind, func(t *testing.T) {
			run := mustExecute(t, t.TempDir(), strings.NewReplacer(change...).Replace(small))
			rows := readTable[outputs.Training](t, run, "train", "training")
			at := slices.IndexFunc(rows, func(r outputs.Training) bool { return r.Event != nil })
			if at < 0 {
				t.Fatal("no event")
			}
			back := strconv.FormatInt(rows[at+1].Step-1, 10)
			if !strings.HasPrefix(*rows[at].Event, kind+": ") || !strings.HasSuffix(*rows[at].Event, "; back to step "+back) || rows[at+1].Attempts() != 1 {
				t.Errorf("event %q at step %d; then attempt %d goes on from step %s", *rows[at].Event, rows[at].Step, rows[at+1].Attempt, back)
			}
			html := page(t, run)
			for _, want := range []string{"Training went wrong once", "at step " + strconv.FormatInt(rows[at].Step, 10) + " (" + kind + ": ",
				"it went back to step " + back + ", with 0.1\u202f% of the learning rate", "What went wrong", "40 logged steps up to step 40", `class="undone"`} {
				if !strings.Contains(html, want) {
					t.Errorf("the report does not say %q", want)
				}
			}
		})
	}
}

// The table of a run that failed lies where its error says.
func TestFailedTrainingKeepsItsTable(t *testing.T) {
	text := strings.Replace(small, "guard: {", "guard: {max_gap: 1e-6, max_rollbacks: 1, ", 1)
	run, err := execute(t, t.TempDir(), text)
	if err == nil {
		t.Fatal("no error")
	}
	_, path, _ := strings.Cut(err.Error(), "stands in ")
	path = strings.TrimSuffix(path, ")")
	if rel, _ := filepath.Rel(run, path); !filepath.IsLocal(rel) || !strings.HasSuffix(path, "training.parquet") {
		t.Fatalf("the error names %q: %v", path, err)
	}
	rows, err := outputs.ReadAll[outputs.Training](path)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, r := range rows {
		if r.Event != nil {
			told = append(told, *r.Event)
		}
	}
	if len(told) != 2 || !strings.HasSuffix(told[0], "; back to step 0") || strings.Contains(told[1], "back to") {
		t.Errorf("events %q; want a rollback to the start and an end", told)
	}
	if _, err := os.Stat(filepath.Join(run, "train")); err == nil {
		t.Error("a failed stage has results")
	}
}

func TestNewestPicture(t *testing.T) {
	dir := t.TempDir()
	rc := &pipeline.RunContext{RunDir: dir}
	if got, err := newestPicture(rc, "train"); got != nil || err != nil {
		t.Errorf("no folder: %v, %v", got, err)
	}
	x := make([]float32, 4*4)
	for _, step := range []string{"step-000999.png", "step-1000000.png", "step-999999.png"} {
		if err := writeGrid(filepath.Join(dir, "train", samplesFolder, step), x, []int{1, 2, 2}, -1, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"notes.txt", "step-x.png"} {
		if err := os.WriteFile(filepath.Join(dir, "train", samplesFolder, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := newestPicture(rc, "train")
	if err != nil || got == nil || got.Step != 1000000 || got.Image == nil || got.Path != "train/samples/step-1000000.png" {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(got.Path)), []byte("cut"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err = newestPicture(rc, "train"); err != nil || got.Image != nil || got.Absent == "" {
		t.Errorf("a damaged picture: %+v, %v", got, err)
	}
}
