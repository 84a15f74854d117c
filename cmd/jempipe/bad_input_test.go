package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// sample is a row of a Parquet data set in these tests.
type sample struct {
	X     []float32 `parquet:"x,list"`
	Label int32     `parquet:"label"`
}

func writeParquet(t *testing.T, path string, rows []sample) {
	t.Helper()
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
}

// idx is a file in the MNIST format: uint8 values, then cut to at most keep bytes.
func idx(t *testing.T, path string, keep int, dims ...uint32) {
	t.Helper()
	var b bytes.Buffer
	b.Write([]byte{0, 0, 8, byte(len(dims))})
	n := uint32(1)
	for _, d := range dims {
		binary.Write(&b, binary.BigEndian, d)
		n *= d
	}
	b.Write(make([]byte, n))
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b.Bytes()[:min(keep, b.Len())])
	w.Close()
	if err := os.WriteFile(path, z.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// onData is a pipeline over one data set.
func onData(entry string) string {
	return `version: 1
name: bad
data:
  mine: ` + entry + `
stages:
  train: {data: mine, steps: 1, network: {arch: mlp}}
`
}

func rows(n int, change func(rows []sample)) []sample {
	out := make([]sample, n)
	for i := range out {
		out[i] = sample{X: []float32{0, 1, 0, 1}, Label: int32(i % 2)}
	}
	if change != nil {
		change(out)
	}
	return out
}

func TestBadInput(t *testing.T) {
	requireRuntime(t)
	dir := t.TempDir()
	good := strings.Replace(small, "STEPS", "1", 1)
	at := func(name string) string { return filepath.Join(dir, name) }
	writeParquet(t, at("uneven.parquet"), rows(40, func(r []sample) { r[17].X = r[17].X[:3] }))
	writeParquet(t, at("label.parquet"), rows(40, func(r []sample) { r[11].Label = 2 }))
	writeParquet(t, at("nan.parquet"), rows(40, func(r []sample) { r[5].X[2] = float32(math.NaN()) }))
	writeParquet(t, at("empty.parquet"), nil)
	write(t, dir, "text.parquet", "x,label\n1,2\n")
	idx(t, at("short-images.gz"), 500, 10, 8, 8)
	idx(t, at("images.gz"), 1<<20, 10, 8, 8)
	idx(t, at("labels.gz"), 1<<20, 9)
	idx(t, at("ten.gz"), 1<<20, 10)
	write(t, dir, "blocked", "a file where the folder of the results should be")

	for _, c := range []struct {
		name, text string
		code       int
		says       []string
		args       []string
	}{
		{"unknown key", strings.Replace(good, "eval_every", "eval_evry", 1), 3, []string{"pipeline.yaml:8:", "eval_evry", "eval_every"}, nil},
		{"wrong type", strings.Replace(good, "steps: 1,", "steps: many,", 1), 3, []string{"pipeline.yaml:8:", "steps", "many", "integer"}, nil},
		{"unknown data set", strings.Replace(good, "data: train", "data: trian", 1), 3, []string{"trian", "train"}, nil},
		{"missing file", onData(`{source: parquet, path: none.parquet, num_classes: 2}`), 4, []string{"none.parquet"}, nil},
		{"no pipeline", "", 3, []string{"pipeline.yaml"}, nil},
		{"truncated IDX", onData(`{source: idx, images: short-images.gz, labels: ten.gz, num_classes: 2}`), 4, []string{"short-images.gz", "row 7", "10 rows"}, nil},
		{"counts differ", onData(`{source: idx, images: images.gz, labels: labels.gz, num_classes: 2}`), 4, []string{"labels.gz", "9", "10"}, nil},
		{"not Parquet", onData(`{source: parquet, path: text.parquet, num_classes: 2}`), 4, []string{"text.parquet", "Parquet"}, nil},
		{"uneven list", onData(`{source: parquet, path: uneven.parquet, num_classes: 2, range: [0, 1]}`), 4, []string{"uneven.parquet", "row group 0", "row 17", "3", "4"}, nil},
		{"label out of range", onData(`{source: parquet, path: label.parquet, num_classes: 2, range: [0, 1]}`), 4, []string{"label.parquet", "row 11", "label 2", "0 to 1"}, nil},
		{"NaN in x", onData(`{source: parquet, path: nan.parquet, num_classes: 2, range: [0, 1]}`), 4, []string{"nan.parquet", "row 5", "NaN"}, nil},
		{"zero rows", onData(`{source: parquet, path: empty.parquet, num_classes: 2}`), 4, []string{"empty.parquet", "row"}, nil},
		{"classes not stated", onData(`{source: parquet, path: label.parquet, range: [0, 1]}`), 3, []string{"num_classes"}, nil},
		{"missing library", good, 1, []string{at("no.so"), "make onnxruntime"}, []string{"--onnxruntime", at("no.so")}},
		{"unwritable output", strings.Replace(good, "name: small", "name: small\noutput: blocked", 1), 1, []string{"blocked"}, nil},
		{"unknown provider", strings.Replace(good, "data:", "runtime: {provider: cdua}\ndata:", 1), 3, []string{"cdua", "cuda"}, nil},
		{"provider that does not work", strings.Replace(good, "data:", "runtime: {provider: tensorrt}\ndata:", 1), 1, []string{"tensorrt"}, nil},
		{"data set that is not scored", strings.Replace(whole, "fit: valid, ", "", 1) + "  again: {kind: calibrate, fit: train, evaluate: test}\n", 3, []string{"train", "does not score"}, nil},
		{"diverged training", strings.Replace(good, "steps: 1,", "steps: 1, guard: {max_loss: 0.000001},", 1), 1, []string{"step 1 of 1", "guard.max_loss", "lower optimizer.lr"}, nil},
		{"classifier without a buffer", strings.Replace(whole, "train: {steps", "train: {objective: classifier, steps", 1), 3, []string{"replay buffer", "start: noise"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := at("pipeline.yaml")
			os.Remove(file)
			if c.name != "no pipeline" {
				write(t, dir, "pipeline.yaml", c.text)
			}
			code, stdout, stderr := jempipe(append([]string{"run", file, "--log-level", "error"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d; stdout %q, stderr:\n%s", code, c.code, stdout, stderr)
			}
			for _, want := range c.says {
				if !strings.Contains(stderr, want) {
					t.Errorf("the message does not mention %q:\n%s", want, stderr)
				}
			}
		})
	}
}

// A library that is too old is told with the version found and the one wanted.
func TestLibraryTooOld(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs a C compiler")
	}
	dir := t.TempDir()
	source := write(t, dir, "old.c", `
static const void *get(unsigned v) { return 0; }
static const char *version(void) { return "1.17.0"; }
static struct { const void *(*get)(unsigned); const char *(*version)(void); } base = {get, version};
void *OrtGetApiBase(void) { return &base; }
`)
	lib := filepath.Join(dir, "libold.so")
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", lib, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := write(t, dir, "pipeline.yaml", strings.Replace(small, "STEPS", "1", 1))
	code, _, stderr := jempipe("run", file, "--onnxruntime", lib)
	if code != 1 || !strings.Contains(stderr, "1.17.0") || !strings.Contains(stderr, "1.24") {
		t.Errorf("exit code %d, want 1 with both versions:\n%s", code, stderr)
	}
}
