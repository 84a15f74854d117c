package stages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
)

// second is a plain classifier beside the model of the example.
const second = `
  base: {kind: train, data: train, objective: classifier, steps: 1}
  xbase: {kind: export, model: base}
  ibase: {kind: infer, model: xbase, id: [valid, test], ood: noise}
  cbase: {kind: calibrate, predictions: ibase, evaluate: test}
`

// Mistakes that can be known before the first stage runs must be told then, by check and by run alike.
func TestMistakesAreFoundBeforeTraining(t *testing.T) {
	replace := func(old, new string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, new, 1) }
	}
	add := func(more string) func(string) string { return func(s string) string { return s + more } }
	for _, c := range []struct {
		name   string
		change func(string) string
		code   int
		says   string
	}{
		{"nothing wrong", replace("seed: 3", "seed: 4"), 0, ""},
		{"two models, each with its own stages", add(second + "  obase: {kind: ood, predictions: ibase, calibration: cbase, ood: noise}\n"), 0, ""},
		{"temperature of another model", add(second + "  obase: {kind: ood, predictions: ibase, ood: noise}\n"), 3, "obase.calibration"},
		{"buffer of another model", add(second + "  sbase: {kind: sgld, model: xbase}\n"), 3, "sbase.buffer"},
		{"report on two models", add(second + "  rbase: {kind: report, predictions: ibase}\n"), 3, "rbase.training"},
		{"scored as out of distribution", replace("ood: {ood: [noise, mixed]}", "ood: {id: noise, ood: mixed}"), 3, "scores noise as out of distribution"},
		{"named twice", replace("ood: {ood: [noise, mixed]}", "ood: {ood: [noise, noise]}"), 3, "named twice"},
		{"judged on the rows of the fit", replace("evaluate: test", "evaluate: valid"), 3, "must not be judged"},
		{"not scored", replace("id: [valid, test], ood: [noise, mixed]", "id: test, ood: [noise, mixed]"), 3, "does not score data set valid"},
		{"kernels for other layers", replace("channels: [4]", "channels: [4], kernels: [3, 3]"), 3, "kernels has 2 entries"},
		{"layout that does not fit", replace("sampler: {", "preprocess: {layout: hwc}, sampler: {"), 3, "layout hwc does not fit"},
		{"mean for other channels", replace("sampler: {", "preprocess: {mean: [1, 2], std: 1}, sampler: {"), 3, "preprocess.mean has 2 numbers"},
		{"class out of range", replace("chains: 6", "chains: 6, classes: [3, 10]"), 3, "class 10"},
		{"more chains than rows", replace("chains: 6", "start: data, data: test, chains: 400"), 3, "355 rows to start from"},
		{"no labels to calibrate on", replace("evaluate: test", "evaluate: noise"), 4, "no labels"},
		{"buffer that cannot be cut", replace("buffer_size: 100", "class_conditional: true, buffer_size: 101"), 3, "buffer_size"},
		{"mala without temperature", replace("chains: 6", "chains: 6, correct: mala"), 3, "needs a temperature"},
		{"mala that training asks for", replace("sampler: {", "sampler: {correct: mala, steps_per_call: 3, temperature: 1, "), 3, "looks at each update"},
		{"range upside down", replace("chains: 6", "chains: 6, range: [1, -1]"), 3, "the lower one first"},
		{"buffer of short runs", replace("sampler: {", "sampler: {persistent: false, "), 3, "leaves no replay buffer"},
		{"shift of the whole picture", replace("sampler: {", "sampler: {augment: {shift: 8}, "), 3, "leave nothing of pictures of 8x8"},
		{"another range", replace("noise: {derive: uniform_noise, of: test}", `noise: {source: "builtin:digits", range: [0, 255]}`), 4, "values in [0, 255], the model was trained on [0, 16]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := c.change(digits)
			if text == digits {
				t.Fatal("the case changes nothing")
			}
			path := filepath.Join(t.TempDir(), "pipeline.yaml")
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			cfg, err := pipeline.Load(path, pipeline.NewRegistry(Kinds()...))
			if err == nil {
				err = cfg.Check()
			}
			if fault.ExitCode(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("check: %v; want exit code %d and %q", err, c.code, c.says)
			}
			if c.code == 0 {
				return
			}
			run, err := execute(t, t.TempDir(), text)
			if fault.ExitCode(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("run: %v; want exit code %d and %q", err, c.code, c.says)
			}
			if _, err := os.Stat(filepath.Join(run, "train")); run != "" && err == nil {
				t.Error("the run trained before it told the mistake")
			}
		})
	}
}

// Class names in another order than the model's are refused; numbers stand for no name.
func TestClassNamesMustAgree(t *testing.T) {
	dir := t.TempDir()
	digitsAsParquet(t, filepath.Join(dir, "digits.parquet"), nil)
	entry := strings.Replace(strings.Replace(fromParquet, "KEEP", "", 1), "num_classes: 10", "class_names: [zero, one, two, three, four, five, six, seven, eight, nine]", 1)
	named := strings.Replace(digits, `train: {source: "builtin:digits", split: train, limit: 200}`, strings.Replace(entry, "test: ", "train:", 1), 1)
	if named == digits {
		t.Fatal("the case changes nothing")
	}
	if _, err := execute(t, dir, named); err != nil {
		t.Errorf("names beside numbers: %v", err)
	}
	wrong := strings.Replace(entry, "[zero, one,", "[one, zero,", 1)
	mixed := strings.Replace(named, `test:  {source: "builtin:digits", split: test}`, wrong, 1)
	if _, err := execute(t, dir, mixed); fault.KindOf(err) != fault.Data || !strings.Contains(err.Error(), "class 0 is one, the model's class 0 is zero") {
		t.Errorf("names in another order: %v", err)
	}
}

// One data set with text ids makes the ids of all of a stage's tables text, so that they can be read as one.
func TestMixedIDsBecomeText(t *testing.T) {
	dir := t.TempDir()
	digitsAsParquet(t, filepath.Join(dir, "digits.parquet"), nil)
	text := strings.Replace(digits, `test:  {source: "builtin:digits", split: test}`, strings.Replace(fromParquet, "KEEP", "", 1), 1)
	run := mustExecute(t, dir, text)
	for _, dataset := range []string{"valid", "test", "noise"} {
		for _, stage := range []string{"infer", "ood"} {
			ok, err := outputs.HasStringID(filepath.Join(run, stage, "predictions", "dataset="+dataset, "part-00000-of-00001.parquet"))
			if err != nil || !ok {
				t.Errorf("%s of %s: text ids %t, %v", dataset, stage, ok, err)
			}
		}
	}
}
