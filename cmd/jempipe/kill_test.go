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

	"github.com/jempipe/jempipe/internal/keyed"
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

// results gives the hash of every Parquet, ONNX, safetensors, HTML and PNG file of a run.
func results(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch filepath.Ext(path) {
		case ".parquet", ".onnx", ".safetensors", ".html", ".png":
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
			if !kill(t, bin, file, run, stage, half[stage]) && stage != "report" { // the last stage may end before its half, on a machine that is faster now
				t.Fatalf("the run ended before it could be killed in stage %s", stage)
			}
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

const shortTraining = `version: 1
name: short
seed: 5
runtime: {provider: cpu, threads: 2}
data:
  train: {source: "builtin:digits", split: train}
  valid: {source: "builtin:digits", split: valid}
stages:
  train:
    steps: 150
    eval_every: 20
    batch_size: 16
    ema: 0.9
    samples_every: 30
    network: {channels: [4], hidden: [16]}
    sampler: {steps: 5, buffer_size: 100}
    checkpoint: {every: 10, minutes: 0.001}
    guard: {gap_steps: 20}
`

// A training that is killed at any moment and run again ends with the bytes of one that was not: twenty times, at
// moments drawn at random.
func TestTwentyKilledTrainings(t *testing.T) {
	requireRuntime(t)
	bin := build(t)
	calm := t.TempDir()
	if out, err := exec.Command(bin, "run", write(t, calm, "pipeline.yaml", shortTraining)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := results(t, calm)
	record, err := pipeline.ReadRecord(filepath.Join(calm, "runs", "short"))
	if err != nil {
		t.Fatal(err)
	}
	rng := keyed.New(1, "kills").At(0, 0)
	wall, continued := *record.Stages[0].WallSeconds, 0
	for i := range 20 {
		dir := t.TempDir()
		file := write(t, dir, "pipeline.yaml", shortTraining)
		for !kill(t, bin, file, filepath.Join(dir, "runs", "short"), "train", time.Duration(0.8*rng.Float64()*wall*float64(time.Second))) {
			if err := os.RemoveAll(filepath.Join(dir, "runs")); err != nil { // it ended before: once more
				t.Fatal(err)
			}
		}
		out, err := exec.Command(bin, "run", file, "--log-format", "json").CombinedOutput()
		if err != nil {
			t.Fatalf("second run: %v\n%s", err, out)
		}
		if strings.Contains(string(out), "continuing from a checkpoint") {
			continued++
		}
		if diff := cmp.Diff(want, results(t, dir)); diff != "" {
			t.Fatalf("run %d: results differ (-calm +killed):\n%s", i, diff)
		}
		if _, err := os.Stat(filepath.Join(dir, "runs", "short", ".train.work")); err == nil {
			t.Fatal("the checkpoints of a finished training were left behind")
		}
	}
	if continued < 10 {
		t.Errorf("only %d of 20 killed runs went on from a checkpoint", continued)
	}
}

// kill starts a run and sends it SIGKILL some time after the stage has begun to write. It is false where the run ended
// before.
func kill(t *testing.T, bin, file, run, stage string, after time.Duration) bool {
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
	_ = cmd.Process.Kill() // fails where the run has ended
	return cmd.Wait() != nil
}
