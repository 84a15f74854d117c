package pipeline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What a stage puts into its scratch directory is there for the next run while it fails, belongs to one configuration,
// and goes with its results' commit, even where the process dies right after that.
func TestScratch(t *testing.T) {
	p := newProject(t)
	fail := errors.New("stopped")
	var found []string
	stage := func(_ context.Context, rc *RunContext) error {
		if rc.Name != "train" {
			return nil
		}
		dir, err := rc.Scratch()
		if err != nil {
			return err
		}
		kept, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			return err
		}
		for _, path := range kept {
			found = append(found, filepath.Base(path))
		}
		if err := os.WriteFile(filepath.Join(dir, "state"), nil, 0o644); err != nil {
			return err
		}
		return fail
	}
	p.reg = testRegistry(stage)
	run := func() error {
		found = nil
		_, err := Run(t.Context(), p.load(), p.opts())
		return err
	}
	if err := run(); !errors.Is(err, fail) || len(found) != 0 {
		t.Fatalf("first run: %v, found %v", err, found)
	}
	if err := run(); !errors.Is(err, fail) || len(found) != 1 {
		t.Fatalf("second run: %v, found %v; want what the first one left", err, found)
	}
	p.write("init.txt", "other")
	if err := run(); !errors.Is(err, fail) || len(found) != 0 {
		t.Fatalf("other inputs: %v, found %v; want nothing", err, found)
	}
	if all, err := filepath.Glob(p.path("runs/tiny/.train.work/*")); err != nil || len(all) != 1 {
		t.Errorf("scratch directories %v, want one", all)
	}
	fail = nil
	if err := run(); err != nil || len(found) != 1 {
		t.Fatalf("last run: %v, found %v", err, found)
	}
	if _, err := os.Stat(p.path("runs/tiny/.train.work")); err == nil {
		t.Error("the scratch directory of a finished stage is left")
	}
	// As after a kill between the commit and the removal.
	m, err := readManifest(p.path("runs/tiny/train"))
	if err != nil {
		t.Fatal(err)
	}
	left := p.path(filepath.Join("runs/tiny/.train.work", m.Fingerprint[:16]))
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.path("runs/tiny/.train.work")); err == nil {
		t.Error("what a killed run left is not removed by one that has nothing to do")
	}
}
