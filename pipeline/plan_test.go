package pipeline

import (
	"context"
	"strings"
	"testing"
	"time"

	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func TestPlanFormat(t *testing.T) {
	p := newProject(t)
	format := func() string {
		plan, err := NewPlan(t.Context(), p.load(), p.opts())
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := plan.Format(&b); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(b.String(), p.dir, "DIR")
	}
	p.run()
	same(t, "up to date", format(), `tiny in DIR/runs/tiny
  reuse  train
  reuse  infer
  reuse  baseline [train]
  reuse  report
nothing to do
`)
	p.replace("pipeline.yaml", "baseline:", "base:")
	same(t, "renamed", format(), `tiny in DIR/runs/tiny
  reuse  train
  reuse  infer
  run    base   [train]  no result yet
  run    report  upstream base runs; config changed: stages (["infer","train","baseline"] -> ["infer","train","base"])
left from an earlier configuration: baseline
2 to run, 2 to reuse
`)
}

// TestRealRuntime runs with the ONNX Runtime of this machine: opened once, shared, and cheap where nothing is to be done.
func TestRealRuntime(t *testing.T) {
	if _, err := ort.Find(""); err != nil {
		t.Skip("no ONNX Runtime: ", err)
	}
	p := newProject(t)
	p.replace("pipeline.yaml", "seed: 3", "seed: 3\nruntime: {provider: cpu, threads: 1}")
	p.reg = testRegistry(func(_ context.Context, rc *RunContext) error {
		_, err := rc.Runtime()
		return err
	})
	run := func() *Result {
		res, err := Run(t.Context(), p.load(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := run(); len(res.Ran) != 4 || res.Record.Runtime.Provider != "cpu" || res.Record.Runtime.Version == "" {
		t.Errorf("run.json: %+v", res.Record.Runtime)
	}
	begun := time.Now()
	if !run().UpToDate() {
		t.Error("not up to date")
	}
	if took := time.Since(begun); took > 500*time.Millisecond {
		t.Errorf("an up-to-date run took %v", took)
	}
}
