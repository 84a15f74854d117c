package pipeline

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/jempipe/jempipe/internal/fault"
)

// badFiles is every testdata/NAME.bad.yaml with its findings. Those that end in dots have words of another package.
var badFiles = map[string][]string{
	"complexkey": {
		"4:18: found an invalid key for this map",
	},
	"constructs": {
		"2:7: name: alias *n: no anchor &n comes before it",
		"2:7: name: nothing found, text wanted",
		"3:7: seed: the tag !big has no meaning here",
		"5:7: << takes a mapping or a list of mappings, found 3",
	},
	"cycle": {
		"6:37: stages.a.stages[1]: the stages wait for each other in a loop: a -> b -> c -> a",
	},
	"documents": {
		"5:1: a second YAML document: a file holds one pipeline; remove it with its ---",
	},
	"empty": {
		"1:1: the file is empty: version, name, data and stages are wanted",
	},
	"keys": {
		"1:1: name: the key is missing: text wanted",
		"2:1: nam: there is no such key; did you mean name?",
		"3:7: seed: -1 is too small, at least 0 is wanted",
		"4:1: seed: the key is given twice, first in line 3",
		"5:11: runtime.thread: there is no such key; did you mean threads?",
		"7:37: data.train.spilt: there is no such key; did you mean split?",
		"9:3: stages.train.data: the key is missing: name of a data set wanted",
		"9:11: stages.train.dta: there is no such key; did you mean data?",
		"9:35: stages.train.optimizer.lrr: there is no such key; did you mean lr?",
		"10:3: stages.train: the key is given twice, first in line 9",
		"11:24: stages.infer.stage: there is no such key; known: data, kind, model",
	},
	"latin1": {
		"2:10: the text is not UTF-8",
	},
	"lint": {
		"3:10: runtime: ...",
		"5:44: data.digits.path: ...",
		"6:38: data.noise.of: ...",
		"10:35: stages.train.optimizer.betas: sgd has none",
	},
	"list": {
		"1:1: a list found, a mapping with the keys version, name, output, seed, runtime, data, stages wanted",
	},
	"mixed": {
		"2:1: non-map value is specified",
	},
	"model": {
		"5:3: stages.infer.model.stage: the key is missing: name of a stage wanted (train, its default, is not in this file)",
	},
	"nostages": {
		"3:1: stages: nothing found, a mapping of stage names to their keys wanted",
	},
	"references": {
		`6:17: stages.train.data: no data set is called "digit"; did you mean digits?`,
		"7:3: stages.second.data: the key is missing: name of a data set wanted",
		`8:18: stages.infer.model.stage: no stage is called "trian"; did you mean train?`,
		`8:40: stages.infer.data[1]: no data set is called "nois"; known: digits`,
		"9:31: stages.again.model.stage: stage infer is of kind infer, wanted is one of kind train: train, second",
		"9:44: stages.again.data[0]: an empty text found, name of a data set wanted",
		"10:31: stages.both.model.stage: not together with onnx: give one of them",
		`11:28: stages.report.stages[1]: no stage is called "report2"; known: again, both, draw, infer, second, sgdl, train`,
		`12:3: stages.sgdl: no stage kind is called "sgdl", and the key kind is not given; known: infer, report, train`,
		`13:16: stages.draw.kind: no stage kind is called "reprot"; did you mean report?`,
	},
	"self": {
		"4:21: stages.report.stages[0]: the stages wait for each other in a loop: report -> report",
	},
	"syntax": {
		"3:1: ',' or ']' must be specified",
	},
	"tab": {
		`4:1: found character '\t' that cannot start any token (indent with spaces: YAML allows no tabs there)`,
	},
	"types": {
		`1:10: version: the text "1" found, integer wanted: remove the quotes`,
		"2:7: name: a list found, text wanted",
		"3:8: output: nothing found, text wanted",
		"4:7: seed: 1.5 found, integer wanted",
		"5:10: runtime: fast found, a mapping with the keys provider, threads, options wanted",
		"7:58: data.train.limit: ten found, integer wanted",
		"10:11: stages.train.data: a mapping found, name of a data set wanted",
		"11:13: stages.train.epochs: 010 found, integer wanted: write it without the leading zero, or with 0o if it is octal",
		"12:11: stages.train.flip: yes found, true or false wanted",
		"13:16: stages.train.optimizer: a list found, a mapping with the keys name, lr, betas wanted",
		"14:17: stages.train.widths[1]: x found, integer wanted",
		"14:20: stages.train.widths[2]: a list found, integer wanted",
		"15:14: stages.train.weights: 3 found, mapping of names to integers wanted",
		"16:16: stages.train.log_every: 99999999999999999999 does not fit into 64 bits",
		"17:17: stages.train.extra.lr: .inf found, a finite number wanted",
		"17:30: stages.train.extra.betas: a mapping found, list of text wanted",
		"18:10: stages.infer: 3 found, a mapping with the keys model, data, kind wanted",
		"19:11: stages.other.kind: a list found, the name of a stage kind wanted",
	},
	"values": {
		"1:10: version: 2 is too large, at most 1 is wanted",
		`2:7: name: "a/b" cannot be the name of a folder here: letters, digits, dots, dashes and underscores are wanted`,
		"3:7: seed: -3 is too small, at least 0 is wanted",
		"4:20: runtime.threads: 100000 is too large, at most 4096 is wanted",
		`6:44: data.train.split: "trian" is not one of train, valid, test, all; did you mean train?`,
		`7:3: data.no/good: "no/good" cannot be the name of a data set: letters, digits, dashes and underscores are wanted`,
		`11:16: stages.train.objective: "jam" is not one of jem, classifier; did you mean jem?`,
		"12:13: stages.train.epochs: 0 is too small, at least 1 is wanted",
		`13:23: stages.train.optimizer.name: "lion" is not one of adam, sgd`,
		"13:33: stages.train.optimizer.lr: 0 is too small, at least 1e-9 is wanted",
		"14:17: stages.train.widths[1]: 0 is too small, at least 1 is wanted",
		"15:17: stages.train.extra.lr: 1 is too large, less than 1 is wanted",
		`16:3: stages.a b: "a b" cannot be the name of a stage: letters, digits, dashes and underscores are wanted`,
		`17:3: stages..x: ".x" cannot be the name of a stage: letters, digits, dashes and underscores are wanted`,
	},
}

func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil || len(files) != len(badFiles) {
		t.Errorf("%d files, %d in the table: %v", len(files), len(badFiles), err)
	}
	for _, path := range files {
		base := filepath.Base(path)
		name := strings.TrimSuffix(base, ".bad.yaml")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(base, text, testRegistry(nil))
			var ce *ConfigError
			if !errors.As(err, &ce) || fault.ExitCode(err) != 3 {
				t.Fatalf("got %v", err)
			}
			var want []string
			for _, line := range badFiles[name] {
				want = append(want, base+":"+line)
			}
			got := strings.Split(err.Error(), "\n")
			for i := range min(len(got), len(want)) {
				if start, ok := strings.CutSuffix(want[i], "..."); ok && strings.HasPrefix(got[i], start) {
					got[i] = want[i]
				}
			}
			same(t, "findings", got, want)
		})
	}
}

func TestGoodFiles(t *testing.T) {
	for _, name := range []string{"full", "short"} {
		if _, err := Load("testdata/"+name+".good.yaml", testRegistry(nil)); err != nil {
			t.Error(err)
		}
	}
}

func TestFullFile(t *testing.T) {
	cfg, err := Load("testdata/full.good.yaml", testRegistry(nil))
	if err != nil {
		t.Fatal(err)
	}
	train := *cfg.Stage("train").Config.(*trainStage)
	want := trainStage{
		Data: "train", Validate: "valid", Objective: "classifier", Epochs: 100, LogEvery: 16,
		Optimizer: optimizer{Name: "sgd", LR: 1e-3}, Widths: []int{64}, Flip: true, Weights: map[string]int{"a": 1, "b": 2},
		Extra: &optimizer{Name: "adam", LR: 0.1, Betas: []string{"0.9", "012", "x", "~x"}}, Init: "w.bin",
	}
	if diff := cmp.Diff(want, train, cmpopts.IgnoreUnexported(trainStage{}), cmpopts.IgnoreFields(trainStage{}, "hook")); diff != "" {
		t.Errorf("train (-want +got):\n%s", diff)
	}
	infer := cfg.Stage("infer").Config.(*inferStage)
	same(t, "model", infer.Model, modelKeys{Stage: "train"})
	same(t, "data", infer.Data, []DataRef{"valid", "noise"})
	same(t, "other model", cfg.Stage("other").Config.(*inferStage).Model, modelKeys{ONNX: "model.onnx"})
	same(t, "order", cfg.stageNames(), []string{"train", "infer", "other", "report"})
	same(t, "seed", cfg.Seed, uint64(math.MaxUint64))
	same(t, "merged entry", []string{cfg.Data["valid"].Source, cfg.Data["valid"].Split}, []string{"builtin:digits", "valid"})
	same(t, "run directory", filepath.Base(filepath.Dir(cfg.RunDir())), "out")
}

func TestDefaultReferences(t *testing.T) {
	cfg, err := Load("testdata/short.good.yaml", testRegistry(nil))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "order", cfg.stageNames(), []string{"train", "infer", "report"})
	infer := cfg.Stage("infer").Config.(*inferStage)
	same(t, "model", infer.Model.Stage, StageRef("train"))
	same(t, "data", infer.Data, []DataRef{"digits"})
	same(t, "needs", cfg.Stage("report").Needs(), []string{"infer", "train"})
	if train := cfg.Stage("train").Config.(*trainStage); train.Validate != "" {
		t.Errorf("validate = %s, but there is no such data set", train.Validate)
	}
}

func TestEmptyReferenceTurnsDefaultOff(t *testing.T) {
	for _, none := range []string{"", "~", `""`} {
		p := newProject(t)
		p.replace("pipeline.yaml", "init: init.txt", "validate: "+none)
		if got := p.load().Stage("train").Config.(*trainStage).Validate; got != "" {
			t.Errorf("validate: %s gives %s", none, got)
		}
	}
}

func TestCheck(t *testing.T) {
	p := newProject(t)
	if err := p.load().Check(); err != nil {
		t.Error(err)
	}
	os.Remove(p.path("images.idx"))
	os.Remove(p.path("init.txt"))
	cfg := p.load()
	err := cfg.Check()
	if err == nil || fault.ExitCode(err) != 4 || !strings.Contains(err.Error(), "images.idx") ||
		!strings.Contains(err.Error(), "stages.train.init: "+p.path("init.txt")+": cannot be read: no such file or directory") {
		t.Error(err)
	}
}

func TestLoadOfNoFile(t *testing.T) {
	_, err := Load("testdata/none.yaml", testRegistry(nil))
	if err == nil || fault.ExitCode(err) != 3 || err.Error() != "testdata/none.yaml: the configuration cannot be read: no such file or directory" {
		t.Error(err)
	}
}

func TestRegistryRefuses(t *testing.T) {
	type noTag struct {
		trainStage
		X int
	}
	for want, kinds := range map[string][]Kind{
		"registered twice":     {testRegistry(nil).kinds["train"], testRegistry(nil).kinds["train"]},
		"the name must match":  {{Name: "a b", New: func() Stage { return &reportStage{} }}},
		"New is nil":           {{Name: "a"}},
		"want a pointer":       {{Name: "a", New: func() Stage { return nil }}},
		"noTag.X: no yaml tag": {{Name: "a", New: func() Stage { return &noTag{} }}},
		"key lr: the tag says": {{Name: "train", New: func() Stage { return &trainStage{Optimizer: optimizer{LR: 0.5}} }}},
	} {
		reg := NewRegistry(kinds...)
		if _, err := Load("testdata/short.good.yaml", reg); err == nil || !strings.Contains(err.Error(), want) || fault.ExitCode(err) != 1 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestReference(t *testing.T) {
	before, rest, _ := strings.Cut(Reference(testRegistry(nil)), "## data.NAME")
	_, after, _ := strings.Cut(rest, "## stages.NAME")
	got := before + "## stages.NAME" + after // the keys of data sets belong to another package
	const golden = "testdata/reference.md"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "reference", got, string(want))
}

func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("a: &a [*a, *a]\nb: &b {<<: [*a, *a]}\n"))
	f.Add([]byte("stages:\n  train: {data: [[[[[]]]]], weights: {<<: {a: 1}}}\n"))
	f.Add([]byte("? a\n: b\n"))
	reg := testRegistry(nil)
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := Parse("pipeline.yaml", text, reg)
		var ce *ConfigError
		switch {
		case err == nil:
			for _, s := range cfg.Stages {
				canonicalJSON(s.Config)
			}
		case !errors.As(err, &ce) || len(ce.Findings) == 0:
			t.Fatalf("not a list of findings: %v", err)
		}
	})
}
