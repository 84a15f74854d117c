package pipeline

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestRunOrderAndRecord(t *testing.T) {
	p := newProject(t)
	same(t, "ran", p.run(), []string{"train", "infer", "baseline", "report"})
	want := []string{"_SUCCESS",
		"baseline/_stage.json", "baseline/sub/out.txt", "infer/_stage.json", "infer/sub/out.txt",
		"report/_stage.json", "report/sub/out.txt", "train/_stage.json", "train/sub/out.txt"}
	tree := p.tree("runs/tiny")
	for _, path := range want {
		if _, ok := tree[path]; !ok {
			t.Errorf("no %s", path)
		}
	}
	if len(tree) != len(want) {
		t.Errorf("%d files, want %d: %v", len(tree), len(want), tree)
	}
	rec, err := ReadRecord(p.path("runs/tiny"))
	if err != nil {
		t.Fatal(err)
	}
	s := rec.Stages[0]
	if rec.Status != StatusDone || rec.Finished == nil || s.State != StateRan || s.WallSeconds == nil || *s.Rows == 0 ||
		string(s.Details["rows_read"]) != "3" || string(s.Measures["speed"]) != "17.5" || len(s.Inputs) != 3 {
		t.Errorf("run.json: %s", p.read("runs/tiny/run.json"))
	}
	if strings.Contains(tree["train/_stage.json"], "speed") {
		t.Error("a measure is in _stage.json")
	}
}

func TestReuse(t *testing.T) {
	p := newProject(t)
	same(t, "plan of a new run", p.plan(), []string{
		"run train: no result yet", "run infer: upstream train runs; no result yet",
		"run baseline: no result yet", "run report: upstream train, infer, baseline run; no result yet",
	})
	p.run()
	wall := func() float64 {
		rec, err := ReadRecord(p.path("runs/tiny"))
		if err != nil {
			t.Fatal(err)
		}
		return *rec.Stages[0].WallSeconds
	}
	first := wall()
	same(t, "plan", p.plan(), []string{"reuse train:", "reuse infer:", "reuse baseline:", "reuse report:"})
	same(t, "ran", len(p.run()), 0)
	same(t, "time carried over", wall(), first)
	rec, _ := ReadRecord(p.path("runs/tiny"))
	same(t, "state", []string{rec.Status, rec.Stages[0].State}, []string{StatusDone, StateReused})
	p.replace("pipeline.yaml", "log_every: 5", "log_every: 50")
	p.replace("pipeline.yaml", "seed: 3", "seed: 3 # a comment")
	same(t, "ran after a change without influence", len(p.run()), 0)
}

func TestWhatRunsAgainAndWhy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *project)
		plan   []string
		ran    []string
	}{
		"config key": {
			func(p *project) { p.replace("pipeline.yaml", "epochs: 1", "epochs: 4") },
			[]string{"reuse train:", "reuse infer:", "run baseline: config changed: epochs (1 -> 4)", "run report: upstream baseline runs"},
			[]string{"baseline", "report"},
		},
		"config key of a nested mapping": {
			func(p *project) {
				p.replace("pipeline.yaml", "epochs: 1", "epochs: 1, optimizer: {lr: 0.2, betas: x}")
			},
			[]string{"reuse train:", "reuse infer:", `run baseline: config changed: optimizer.betas ([] -> ["x"]), optimizer.lr (0.1 -> 0.2)`, "run report: upstream baseline runs"},
			[]string{"baseline", "report"},
		},
		"input file": {
			func(p *project) { p.write("init.txt", "ones!") },
			[]string{"run train: input file init.txt changed", "run infer: upstream train runs", "reuse baseline:", "run report: upstream train, infer run"},
			[]string{"train", "infer", "report"},
		},
		"data file": {
			func(p *project) { p.write("labels.idx", idx([]int{3}, 0)) },
			[]string{"run train: input data train changed (labels.idx)", "run infer: upstream train runs; input data train changed (labels.idx)",
				"run baseline: input data train changed (labels.idx)", "run report: upstream train, infer, baseline run"},
			[]string{"train", "infer", "baseline", "report"},
		},
		"data entry": {
			func(p *project) { p.replace("pipeline.yaml", "skip: 1", "skip: 2") },
			[]string{"run train: entry data.valid changed", "run infer: upstream train runs; entry data.valid changed",
				"run baseline: entry data.valid changed", "run report: upstream train, infer, baseline run"},
			[]string{"train", "infer", "baseline"}, // the fake stages write the same bytes
		},
		"seed": {
			func(p *project) { p.replace("pipeline.yaml", "seed: 3", "seed: 4") },
			[]string{"run train: seed changed (3 -> 4)", "run infer: upstream train runs; seed changed (3 -> 4)",
				"run baseline: seed changed (3 -> 4)", "run report: upstream train, infer, baseline run; seed changed (3 -> 4)"},
			[]string{"train", "infer", "baseline", "report"},
		},
		"runtime": {
			func(p *project) { p.info.Provider = "cuda"; p.info.Threads = 1 },
			[]string{"run train: runtime changed: provider cpu -> cuda, threads 2 -> 1", "run infer: upstream train runs; runtime changed: provider cpu -> cuda, threads 2 -> 1",
				"run baseline: runtime changed: provider cpu -> cuda, threads 2 -> 1",
				"run report: upstream train, infer, baseline run; runtime changed: provider cpu -> cuda, threads 2 -> 1"},
			[]string{"train", "infer", "baseline", "report"},
		},
		"deleted output": {
			func(p *project) { os.Remove(p.path("runs/tiny/train/sub/out.txt")) },
			[]string{"run train: output sub/out.txt is missing", "run infer: upstream train runs", "reuse baseline:", "run report: upstream train, infer run"},
			[]string{"train"}, // its bytes are those of before, so nothing else has to run
		},
		"edited output": {
			func(p *project) {
				text := p.read("runs/tiny/infer/sub/out.txt")
				p.write("runs/tiny/infer/sub/out.txt", "x"+text[1:])
			},
			[]string{"reuse train:", "run infer: output sub/out.txt was changed", "reuse baseline:", "run report: upstream infer runs"},
			[]string{"infer"},
		},
		"damaged manifest": {
			func(p *project) { p.write("runs/tiny/baseline/_stage.json", "{") },
			[]string{"reuse train:", "reuse infer:", "run baseline: its _stage.json cannot be read: unexpected end of JSON input", "run report: upstream baseline runs"},
			[]string{"baseline"},
		},
		"renamed stage": {
			func(p *project) { p.replace("pipeline.yaml", "baseline:", "base:") },
			[]string{"reuse train:", "reuse infer:", "run base: no result yet", `run report: upstream base runs; config changed: stages`},
			[]string{"base", "report"},
		},
		"code version": {
			func(p *project) {
				k := p.reg.kinds["infer"]
				k.Version = 2
				p.reg.kinds["infer"] = k
			},
			[]string{"reuse train:", "run infer: code version of kind infer changed (1 -> 2)", "reuse baseline:", "run report: upstream infer runs"},
			[]string{"infer"},
		},
		"nothing but the time of a data file": {
			func(p *project) {
				later := time.Now().Add(-time.Hour)
				if err := os.Chtimes(p.path("images.idx"), later, later); err != nil {
					p.t.Fatal(err)
				}
			},
			[]string{"reuse train:", "reuse infer:", "reuse baseline:", "reuse report:"},
			nil,
		},
		"lost cache": {
			func(p *project) { os.RemoveAll(p.path("runs/tiny/.cache")) },
			[]string{"reuse train:", "reuse infer:", "reuse baseline:", "reuse report:"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			p.run()
			time.Sleep(30 * time.Millisecond) // past the granularity of file times
			p.run()
			c.change(p)
			got := p.plan()
			for i, line := range c.plan {
				if !strings.HasPrefix(got[i], line) || strings.HasSuffix(line, ":") && got[i] != line {
					t.Errorf("got  %s\nwant %s", got[i], line)
				}
			}
			same(t, "ran", p.run(), c.ran)
			same(t, "ran after that", len(p.run()), 0)
			if _, err := os.Stat(p.path("runs/tiny/_SUCCESS")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSameBytesAnywhere(t *testing.T) {
	a, b := newProject(t), newProject(t)
	a.run()
	b.run()
	same(t, "results", b.tree("runs/tiny"), a.tree("runs/tiny"))
}

func TestPlanWritesNothing(t *testing.T) {
	p := newProject(t)
	before := p.tree(".")
	p.plan()
	same(t, "files", p.tree("."), before)
	if _, err := os.Stat(p.path("runs")); err == nil {
		t.Error("planning made the output folder")
	}
	p.run()
	p.write("init.txt", "ones!")
	times := func() map[string]time.Time {
		out := map[string]time.Time{}
		for _, name := range []string{"runs/tiny", "runs/tiny/run.json", "runs/tiny/.cache", "runs/tiny/.cache/hashes.json", "runs/tiny/.lock", "runs/tiny/_SUCCESS"} {
			info, err := os.Stat(p.path(name))
			if err != nil {
				t.Fatal(err)
			}
			out[name] = info.ModTime()
		}
		return out
	}
	was := times()
	p.plan()
	same(t, "times", times(), was)
	same(t, "ran", p.run(), []string{"train", "infer", "report"})
}

func TestForceAndOnly(t *testing.T) {
	p := newProject(t)
	opts := p.opts()
	opts.Only = []string{"baseline"}
	res, err := Run(t.Context(), p.load(), opts)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "ran", res.Ran, []string{"baseline"})
	same(t, "left", res.Left, []string{"train", "infer", "report"})
	same(t, "status", res.Record.Status, StatusPartial)
	if _, err := os.Stat(p.path("runs/tiny/_SUCCESS")); err == nil {
		t.Error("a partial run has _SUCCESS")
	}
	opts.Only = []string{"infer"}
	_, err = Run(t.Context(), p.load(), opts)
	if want := "stage infer needs stage train, which is not up to date (no result yet); select train too"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	p.run()
	opts = p.opts()
	opts.Force = []string{"train"}
	if res, err = Run(t.Context(), p.load(), opts); err != nil {
		t.Fatal(err)
	}
	same(t, "forced", res.Ran, []string{"train"})
	opts.Force = []string{"trian"}
	_, err = Run(t.Context(), p.load(), opts)
	if err == nil || !strings.HasSuffix(err.Error(), `has no stage "trian"; did you mean train?`) {
		t.Error(err)
	}
}

func TestUpToDateRunIsFast(t *testing.T) {
	p := newProject(t)
	big := p.path("init.txt")
	if err := os.WriteFile(big, make([]byte, 64<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	p.run()
	time.Sleep(30 * time.Millisecond)
	p.run()
	begun := time.Now()
	same(t, "ran", len(p.run()), 0)
	if took := time.Since(begun); took > 500*time.Millisecond {
		t.Errorf("an up-to-date run took %v", took)
	}
}
