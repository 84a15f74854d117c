package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// noTemporaries fails the test where a run directory holds parts of a result.
func noTemporaries(t *testing.T, p *project) {
	t.Helper()
	left, err := filepath.Glob(p.path("runs/tiny/.*.tmp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestFailureKeepsEarlierStages(t *testing.T) {
	p := newProject(t)
	p.reg = testRegistry(func(_ context.Context, rc *RunContext) error {
		if rc.Name == "infer" {
			return fault.New(fault.Data, "x.parquet: row 3", "no good")
		}
		return nil
	})
	res, err := Run(t.Context(), p.load(), p.opts())
	if err == nil || err.Error() != "stage infer: x.parquet: row 3: no good" || fault.ExitCode(err) != 4 {
		t.Fatal(err)
	}
	same(t, "ran", res.Ran, []string{"train"})
	noTemporaries(t, p)
	rec, err := ReadRecord(p.path("runs/tiny"))
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, s := range rec.Stages {
		states = append(states, s.State)
	}
	same(t, "states", states, []string{StateRan, StatusFailed, StatePending, StatePending})
	same(t, "status", rec.Status+": "+rec.Error, "failed: stage infer: x.parquet: row 3: no good")
	if rec.Stages[1].WallSeconds == nil || rec.Stages[1].Error == "" {
		t.Error("the failed stage has no time or error")
	}
	if _, err := os.Stat(p.path("runs/tiny/_SUCCESS")); err == nil {
		t.Error("a failed run has _SUCCESS")
	}
	p.reg = testRegistry(nil)
	same(t, "ran", p.run(), []string{"infer", "baseline", "report"})
}

func TestFailureKeepsFormerResult(t *testing.T) {
	p := newProject(t)
	p.run()
	before := p.tree("runs/tiny/train")
	p.write("init.txt", "ones!")
	p.reg = testRegistry(func(context.Context, *RunContext) error { return errors.New("no") })
	if _, err := Run(t.Context(), p.load(), p.opts()); err == nil {
		t.Fatal("no error")
	}
	same(t, "former result", p.tree("runs/tiny/train"), before)
	if _, err := os.Stat(p.path("runs/tiny/_SUCCESS")); err == nil {
		t.Error("a failed run has _SUCCESS")
	}
}

func TestCancel(t *testing.T) {
	for name, stubborn := range map[string]bool{"stage that listens": false, "stage that does not": true} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			ctx, cancel := context.WithCancel(t.Context())
			release := make(chan struct{})
			defer close(release)
			p.reg = testRegistry(func(ctx context.Context, rc *RunContext) error {
				if rc.Name != "infer" {
					return nil
				}
				cancel()
				if stubborn {
					<-release
				}
				<-ctx.Done()
				return ctx.Err()
			})
			begun := time.Now()
			res, err := Run(ctx, p.load(), p.opts())
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
			if !errors.Is(err, context.Canceled) || fault.ExitCode(err) != 130 {
				t.Fatal(err)
			}
			same(t, "ran", res.Ran, []string{"train"})
			same(t, "status", []string{res.Record.Status, res.Record.Stages[1].State}, []string{StatusCancelled, StatusCancelled})
			noTemporaries(t, p)
			p.reg = testRegistry(nil)
			same(t, "ran", p.run(), []string{"infer", "baseline", "report"})
		})
	}
}

// TestMain runs the pipeline of a folder in place of the tests where the environment asks for it, so that a test can
// kill it.
func TestMain(m *testing.M) {
	dir := os.Getenv("PIPELINE_TEST_RUN")
	if dir == "" {
		os.Exit(m.Run())
	}
	at := os.Getenv("PIPELINE_TEST_STOP_AT")
	reg := testRegistry(func(ctx context.Context, rc *RunContext) error {
		if rc.Name != at {
			return nil
		}
		if err := os.WriteFile(filepath.Join(dir, "reached"), nil, 0o644); err != nil {
			return err
		}
		time.Sleep(time.Minute)
		return nil
	})
	cfg, err := Load(filepath.Join(dir, "pipeline.yaml"), reg)
	if err == nil {
		info := ort.Info{Library: ort.Library{Version: "1.2.3", Path: "/lib"}, Provider: "cpu", Threads: 2}
		_, err = Run(context.Background(), cfg, Options{ToolVersion: "test", RuntimeInfo: func() (ort.Info, error) { return info, nil }})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(fault.ExitCode(err))
}

// child starts the pipeline of p in another process and returns when it is in the middle of a stage.
func (p *project) child(stage string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PIPELINE_TEST_RUN="+p.dir, "PIPELINE_TEST_STOP_AT="+stage)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill() })
	for begun := time.Now(); time.Since(begun) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(p.path("reached")); err == nil {
			os.Remove(p.path("reached"))
			return cmd
		}
	}
	p.t.Fatal("the child did not reach the stage: ", log.String())
	return nil
}

func TestKillInTheMiddle(t *testing.T) {
	clean := newProject(t)
	clean.run()
	p := newProject(t)
	for _, stage := range []string{"train", "infer", "report"} {
		cmd := p.child(stage)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if _, err := os.Stat(p.path("runs/tiny/" + stage)); err == nil {
			t.Errorf("part of stage %s has its final name", stage)
		}
		rec, err := ReadRecord(p.path("runs/tiny"))
		if err != nil || rec.Status != StatusRunning {
			t.Errorf("run.json: %v %v", rec.Status, err)
		}
	}
	same(t, "ran", p.run(), []string{"report"})
	same(t, "results", p.tree("runs/tiny"), clean.tree("runs/tiny"))
	rec, err := ReadRecord(p.path("runs/tiny"))
	if err != nil || rec.Stages[0].WallSeconds == nil {
		t.Errorf("the time of train, which ran before the kill, is lost: %v", err)
	}
	noTemporaries(t, p)
}

func TestLock(t *testing.T) {
	p := newProject(t)
	cmd := p.child("infer")
	_, err := Run(t.Context(), p.load(), p.opts())
	want := fmt.Sprintf("%s: another run is using this directory (process %d); wait for it, or give this run another name", p.path("runs/tiny"), cmd.Process.Pid)
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	same(t, "plan beside it", p.plan()[:2], []string{"reuse train:", "run infer: no result yet"})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	same(t, "ran", p.run(), []string{"infer", "baseline", "report"})
}

func TestPanic(t *testing.T) {
	p := newProject(t)
	p.reg = testRegistry(func(context.Context, *RunContext) error {
		var m map[string]int
		m["x"] = 1
		return nil
	})
	var log bytes.Buffer
	opts := p.opts()
	opts.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	_, err := Run(t.Context(), p.load(), opts)
	if err == nil || !strings.HasPrefix(err.Error(), "stage train: panic: assignment to entry in nil map") || fault.ExitCode(err) != 1 {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "stop_test.go") {
		t.Errorf("no stack in the log: %s", log.String())
	}
	noTemporaries(t, p)
}

func TestUnwritable(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(p *project)
		want  string
	}{
		"a file in place of the output folder": {
			func(p *project) { p.write("runs", "") },
			"/runs/tiny: the run directory cannot be written: not a directory; make it writable, or set output: to another folder",
		},
		"a file in place of a stage's folder": {
			func(p *project) {
				if err := os.MkdirAll(p.path("runs/tiny"), 0o755); err != nil {
					p.t.Fatal(err)
				}
				p.write("runs/tiny/report", "")
			},
			"/runs/tiny/report: a file is in the place of a stage's directory; move it away",
		},
		"no permission": {
			func(p *project) {
				if os.Getuid() == 0 {
					p.t.Skip("root may write everywhere")
				}
				if err := os.MkdirAll(p.path("runs/tiny"), 0o555); err != nil {
					p.t.Fatal(err)
				}
			},
			"/runs/tiny: the run directory cannot be written: permission denied; make it writable, or set output: to another folder",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			c.spoil(p)
			p.reg = testRegistry(func(context.Context, *RunContext) error {
				t.Error("a stage has started")
				return nil
			})
			_, err := Run(t.Context(), p.load(), p.opts())
			if err == nil || err.Error() != p.dir+c.want || fault.ExitCode(err) != 1 {
				t.Errorf("got  %v\nwant %s", err, p.dir+c.want)
			}
		})
	}
}

func TestInputThatChangesWhileRunning(t *testing.T) {
	p := newProject(t)
	p.reg = testRegistry(func(_ context.Context, rc *RunContext) error {
		if rc.Name == "train" {
			p.write("init.txt", "other")
		}
		return nil
	})
	_, err := Run(t.Context(), p.load(), p.opts())
	want := "stage train: " + p.path("init.txt") + ": the file has changed while the pipeline was running; run again"
	if err == nil || err.Error() != want || fault.ExitCode(err) != 4 {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	p.reg = testRegistry(nil)
	same(t, "ran", p.run(), []string{"train", "infer", "baseline", "report"})
}

func TestReportsThatCannotBeTaken(t *testing.T) {
	for want, report := range map[string]func(rc *RunContext){
		`stage train: the report "auroc" cannot be written as JSON: json: unsupported value: NaN`: func(rc *RunContext) {
			zero := 0.0
			rc.Detail("auroc", zero/zero)
		},
		"stage train: rows reported for no.parquet, which was not written":           func(rc *RunContext) { rc.Rows("no.parquet", 1) },
		"stage train: rows reported for ../x, which is not in the stage's directory": func(rc *RunContext) { rc.Rows("../x", 1) },
	} {
		p := newProject(t)
		p.reg = testRegistry(func(_ context.Context, rc *RunContext) error {
			report(rc)
			return nil
		})
		_, err := Run(t.Context(), p.load(), p.opts())
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// watcher writes events down.
type watcher struct{ lines []string }

func (w *watcher) add(what, name string) { w.lines = append(w.lines, what+" "+name) }

func (w *watcher) StageStarted(e StageEvent)     { w.add("started", e.Name) }
func (w *watcher) StageDone(e StageEvent)        { w.add("done", e.Name) }
func (w *watcher) StageReused(e StageEvent)      { w.add("reused", e.Name) }
func (w *watcher) StageFailed(e StageEvent)      { w.add("failed", e.Name) }
func (w *watcher) StageProgress(e ProgressEvent) { w.add("progress", e.Text) }

func TestEvents(t *testing.T) {
	p := newProject(t)
	p.run()
	p.replace("pipeline.yaml", "epochs: 1", "epochs: 9")
	p.reg = testRegistry(func(_ context.Context, rc *RunContext) error {
		if rc.Name == "report" {
			return errors.New("no")
		}
		for i := range int64(1000) {
			rc.Progress(i+1, 1000, "step %d", i+1)
		}
		return nil
	})
	w := &watcher{}
	opts := p.opts()
	opts.Observer = Observers(w, LogObserver(slog.New(slog.DiscardHandler)))
	if _, err := Run(t.Context(), p.load(), opts); err == nil {
		t.Fatal("no error")
	}
	same(t, "events", w.lines, []string{"reused train", "reused infer", "started baseline", "progress step 1", "progress step 1000",
		"done baseline", "started report", "failed report"})
}

func TestProgressOfSteps(t *testing.T) {
	p := newProject(t)
	p.replace("pipeline.yaml", "epochs: 1", "epochs: 9")
	p.reg = testRegistry(func(_ context.Context, rc *RunContext) error {
		if rc.Name == "train" {
			rc.Steps(1, 3, Figure{"gap", -0.123456}, Figure{"accuracy", math.NaN()}, Figure{"loss", math.Inf(1)})
			time.Sleep(2 * progressEvery)
			rc.Steps(2, 3, Figure{"gap", 0.5})
		}
		return nil
	})
	var events []ProgressEvent
	opts := p.opts()
	opts.Observer = Observers(&progressWatcher{events: &events})
	if _, err := Run(t.Context(), p.load(), opts); err != nil {
		t.Fatal(err)
	}
	if len(events) != 2 || len(events[0].Figures) != 1 || events[0].Unit != "steps" || events[0].PerSecond != 0 || events[0].Left != 0 {
		t.Fatalf("events %+v; want two, the first with the finite figure alone and no rate yet", events)
	}
	if e := events[1]; !(e.PerSecond > 0 && e.PerSecond < 5) || math.Abs(e.Left.Seconds()*e.PerSecond-1) > 1e-6 {
		t.Errorf("rate %v and %v left after one step in at least 0.2 s, with one to go", e.PerSecond, e.Left)
	}
}

type progressWatcher struct {
	watcher
	events *[]ProgressEvent
}

func (w *progressWatcher) StageProgress(e ProgressEvent) { *w.events = append(*w.events, e) }

func TestPace(t *testing.T) {
	start := time.Unix(1000, 0)
	var p pace
	for _, c := range []struct {
		what           string
		done, total, s int64
		rate           float64
		left           time.Duration
	}{
		{"the first word, of a run that was continued", 500, 1000, 0, 0, 0},
		{"no time has passed", 501, 1000, 0, 0, 0},
		{"what was done before does not count", 520, 1000, 10, 2, 240 * time.Second},
		{"the end", 1000, 1000, 20, 25, 0},
		{"a rollback", 200, 1000, 21, 0, 0},
		{"after it", 300, 1000, 31, 10, 70 * time.Second},
		{"other work", 310, 400, 40, 0, 0},
		{"without an end", 320, 0, 41, 0, 0},
		{"and on", 330, 0, 42, 10, 0},
	} {
		now := start.Add(time.Duration(c.s) * time.Second)
		p.see(c.done, c.total, now)
		if rate, left := p.rate(now); rate != c.rate || left != c.left {
			t.Errorf("%s: rate %v, left %v; want %v, %v", c.what, rate, left, c.rate, c.left)
		}
	}
}

func TestProgressInTheLog(t *testing.T) {
	var b bytes.Buffer
	o := LogObserver(slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	o.StageProgress(ProgressEvent{Name: "train", Kind: "train", Done: 3200, Total: 7500, Unit: "steps", PerSecond: 21.43721, Left: 200*time.Second + 400*time.Millisecond,
		Figures: []Figure{{"gap", -0.102134}, {"accuracy", 0.984375}}})
	o.StageProgress(ProgressEvent{Name: "train"})
	same(t, "log", b.String(), `{"level":"INFO","msg":"stage progress","stage":"train","done":3200,"total":7500,"unit":"steps","per_second":21.4372,"eta_seconds":200,"gap":-0.1021,"accuracy":0.9844}`+"\n")
	b.Reset()
	o = LogObserver(slog.New(slog.NewTextHandler(&b, nil)))
	o.StageProgress(ProgressEvent{Name: "infer", Done: 5, Text: "mnist-test"})
	if got := b.String(); !strings.HasSuffix(got, `msg="stage progress" stage=infer done=5 total=0 text=mnist-test`+"\n") {
		t.Errorf("what is not known is left out: %s", got)
	}
}
