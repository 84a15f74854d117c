package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jempipe/jempipe/pipeline"
)

const whole = `version: 1
name: whole
seed: 5
runtime: {provider: cpu, threads: 2}
data:
  train: {source: "builtin:digits", split: train}
  valid: {source: "builtin:digits", split: valid}
  test: {source: "builtin:digits", split: test}
  noise: {derive: uniform_noise, of: test}
stages:
  train: {steps: 30, eval_every: 10, batch_size: 16, network: {channels: [4], hidden: [16]}, sampler: {steps: 5, buffer_size: 100}}
  export: {}
  infer: {id: [valid, test], ood: noise}
  sgld: {chains: 16, steps: 40, keep_every: 10}
  calibrate: {evaluate: test}
  ood: {ood: noise}
  report: {}
`

// results gives the hash of every Parquet, ONNX, safetensors and HTML file of a run.
func results(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch filepath.Ext(path) {
		case ".parquet", ".onnx", ".safetensors", ".html":
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(dir, path)
			sum := sha256.Sum256(data)
			out[rel] = hex.EncodeToString(sum[:])
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A run that is killed in the middle of any stage and started again ends with the bytes of one that was not, and no
// final name ever holds part of a result.
func TestKilledRunResumes(t *testing.T) {
	requireRuntime(t)
	bin := build(t)
	calm := t.TempDir()
	file := write(t, calm, "pipeline.yaml", whole)
	if out, err := exec.Command(bin, "run", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := results(t, calm)
	if len(want) < 20 {
		t.Fatalf("only %d results: %v", len(want), want)
	}
	half := map[string]time.Duration{} // into each stage
	record, err := pipeline.ReadRecord(filepath.Join(calm, "runs", "whole"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range record.Stages {
		half[s.Name] = time.Duration(*s.WallSeconds / 2 * float64(time.Second))
	}
	for _, stage := range []string{"train", "export", "infer", "sgld", "calibrate", "ood", "report"} {
		t.Run(stage, func(t *testing.T) {
			dir := t.TempDir()
			file := write(t, dir, "pipeline.yaml", whole)
			run := filepath.Join(dir, "runs", "whole")
			kill(t, bin, file, run, stage, half[stage])
			if _, err := os.Stat(filepath.Join(run, stage)); err == nil {
				t.Log("the stage was complete before the signal came")
			}
			out, err := exec.Command(bin, "run", file).CombinedOutput()
			if err != nil {
				t.Fatalf("second run: %v\n%s", err, out)
			}
			if diff := cmp.Diff(want, results(t, dir)); diff != "" {
				t.Errorf("results differ (-calm +killed):\n%s", diff)
			}
			left, err := filepath.Glob(filepath.Join(run, ".*.tmp-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// kill starts a run and sends it SIGKILL some time after the stage has begun to write.
func kill(t *testing.T, bin, file, run, stage string, after time.Duration) {
	t.Helper()
	cmd := exec.Command(bin, "run", file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	begun := func() bool {
		entries, err := os.ReadDir(run)
		if err != nil {
			return false
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "."+stage+".tmp-") {
				return true
			}
		}
		return false
	}
	deadline := time.Now().Add(time.Minute)
	for !begun() {
		if time.Now().After(deadline) {
			cmd.Process.Kill()
			cmd.Wait()
			t.Fatalf("stage %s did not begin within a minute", stage)
		}
		time.Sleep(200 * time.Microsecond)
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil && stage != "report" { // the last stage may end before its half, on a machine that is faster now
		t.Fatalf("the run ended before it could be killed in stage %s", stage)
	}
}
