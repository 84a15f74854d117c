package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/stages"
)

// jempipe runs a command line in this process.
func jempipe(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), append([]string{"jempipe"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// build makes the program once a test run.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jempipe")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// gorgonia refuses to start on Go versions that go4.org/unsafe/assume-no-moving-gc does not know: the pinned version of
// that module must let the real binary start.
func TestBinaryStarts(t *testing.T) {
	out, err := exec.Command(build(t), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "jempipe ") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestFlagsBeforeAndAfterTheFile(t *testing.T) {
	a := &app{}
	commands := a.cli().Commands
	for _, c := range []struct{ in, want string }{
		{"jempipe run a.yaml --force x --log-format json", "jempipe run --force x --log-format json -- a.yaml"},
		{"jempipe run --log-format=json a.yaml --no-progress", "jempipe run --log-format=json --no-progress -- a.yaml"},
		{"jempipe run --no-progress a.yaml", "jempipe run --no-progress -- a.yaml"},
		{"jempipe inspect --rows 5 x.parquet", "jempipe inspect --rows 5 -- x.parquet"},
		{"jempipe run -- --odd.yaml", "jempipe run -- --odd.yaml"},
		{"jempipe --help", "jempipe --help"},
		{"jempipe run --help", "jempipe run --help"},
	} {
		got := strings.Join(flagsFirst(strings.Fields(c.in), commands), " ")
		if got != c.want {
			t.Errorf("%s\n got  %s\n want %s", c.in, got, c.want)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"rum"}, "did you mean run?"},
		{[]string{"run", "--frce", "x"}, "frce"},
		{[]string{"run", "a.yaml", "b.yaml"}, "takes one file"},
		{[]string{"inspect"}, "takes one file"},
		{[]string{"inspect", "x.txt"}, ".onnx, .safetensors or .parquet"},
		{[]string{"run", "--log-format", "xml", "x.yaml"}, "text or json"},
		{[]string{"docs", "poems"}, "pipeline or tables"},
	} {
		code, _, stderr := jempipe(c.args...)
		if code != 2 || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit code %d, want 2; stderr %q, want %q in it", c.args, code, stderr, c.says)
		}
	}
}

func TestHelpIsSuccess(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"run", "--help"}, {"inspect", "--help"}} {
		code, stdout, _ := jempipe(args...)
		if code != 0 || !strings.Contains(stdout, "USAGE") {
			t.Errorf("%v: exit code %d, stdout %q", args, code, stdout)
		}
	}
}

// The reference pages are made from the program; they must be those in docs/.
func TestReferencePagesAreCurrent(t *testing.T) {
	for _, page := range []string{"pipeline", "tables"} {
		code, stdout, stderr := jempipe("docs", page)
		if code != 0 {
			t.Fatalf("docs %s: exit code %d, %s", page, code, stderr)
		}
		kept, err := os.ReadFile(filepath.Join("..", "..", "docs", page+".md"))
		if err != nil {
			t.Fatal(err)
		}
		if string(kept) != stdout {
			t.Errorf("docs/%s.md is not what the program says; run make docs", page)
		}
	}
	training, err := os.ReadFile(filepath.Join("..", "..", "docs", "training.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, keys, _ := jempipe("docs", "train"); !strings.Contains(string(training), "<!-- keys -->\n"+keys+"<!-- end of keys -->\n") {
		t.Error("docs/training.md does not have the keys as the program says; run make docs")
	}
}

// Every example must be free of findings; the data of some is fetched by make, so files are not looked for.
func TestExamplesAreSound(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join("..", "..", "examples", "*", "*.yaml"))
	if err != nil || len(examples) < 2 {
		t.Fatalf("examples %v, %v", examples, err)
	}
	for _, path := range examples {
		if _, err := pipeline.Load(path, pipeline.NewRegistry(stages.Kinds()...)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if code, _, stderr := jempipe("check", filepath.Join("..", "..", "pipeline.yaml")); code != 0 {
		t.Errorf("pipeline.yaml: exit code %d, %s", code, stderr)
	}
}

// write puts a file into a folder.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const small = `version: 1
name: small
seed: 1
data:
  train: {source: "builtin:digits", split: train}
  test: {source: "builtin:digits", split: test}
stages:
  train: {data: train, steps: STEPS, eval_every: 1000}
`

// A signal ends the run within two seconds with the exit code of the signal, and leaves no half-made stage behind.
func TestSignalStopsTheRun(t *testing.T) {
	requireRuntime(t)
	bin := build(t)
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		dir := t.TempDir()
		file := write(t, dir, "pipeline.yaml", strings.Replace(small, "STEPS", "1000000", 1))
		cmd := exec.Command(bin, "run", file)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if begun, err := filepath.Glob(filepath.Join(dir, "runs", "small", ".train.tmp-*")); err == nil && len(begun) > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%v: training did not begin; stderr:\n%s", sig, stderr.String())
			}
		}
		time.Sleep(300 * time.Millisecond) // into the training loop
		sent := time.Now()
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if took := time.Since(sent); took > 2*time.Second {
			t.Errorf("%v: the run took %v to stop", sig, took)
		}
		if cmd.ProcessState.ExitCode() != want {
			t.Errorf("%v: %v, want exit code %d; stderr:\n%s", sig, err, want, stderr.String())
		}
		entries, err := os.ReadDir(filepath.Join(dir, "runs", "small"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), "train") && e.Name() != ".train.work" { // its checkpoints, for the next run
				t.Errorf("%v: %s was left behind", sig, e.Name())
			}
		}
	}
}

func TestDoctor(t *testing.T) {
	requireRuntime(t)
	code, stdout, stderr := jempipe("doctor")
	for _, want := range []string{"onnxruntime", "provider cpu", "works", "cores"} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, %q is not in:\n%s%s", code, want, stdout, stderr)
		}
	}
	code, _, stderr = jempipe("doctor", "--onnxruntime", filepath.Join(t.TempDir(), "none.so"))
	if code != 1 || !strings.Contains(stderr, "none.so") {
		t.Errorf("missing library: exit code %d, %s", code, stderr)
	}
}

func TestInspect(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a.onnx": "no model", "a.safetensors": "no tensors", "a.parquet": "no table"} {
		code, _, stderr := jempipe("inspect", write(t, dir, name, content))
		if code != 4 || !strings.Contains(stderr, name) {
			t.Errorf("damaged %s: exit code %d, stderr %q", name, code, stderr)
		}
	}
}

// requireRuntime skips a test where there is no ONNX Runtime.
func requireRuntime(t *testing.T) {
	t.Helper()
	if _, err := ort.Find(""); err != nil {
		t.Skipf("needs ONNX Runtime, run make onnxruntime: %v", err)
	}
}
