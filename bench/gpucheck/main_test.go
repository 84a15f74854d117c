package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// The whole check runs on the CPU.
func TestOnTheCPU(t *testing.T) {
	if _, err := ort.Find(""); err != nil {
		t.Skip(err)
	}
	before := ort.Live()
	var out strings.Builder
	if err := run(t.Context(), []string{"-provider", "cpu", "-nets", "convnet-silu", "-engines", "gorgonia", "-budget", "1ms"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		`ONNX Runtime 1\.\d+\.\d+ \(.*\), provider cpu\n`,
		`PyTorch is not installed`,
		`nodes of the score graph: \d+ on CPUExecutionProvider\n`,
		`nodes of the Langevin graph: \d+ on CPUExecutionProvider\n`,
		`relative difference from the CPU: x 0.0e\+00 energy 0.0e\+00\n`,
		`relative difference from the CPU: logits 0.0e\+00 energy 0.0e\+00 score 0.0e\+00\n`,
		`scoring, batches of 256: [1-9]\d* rows/s\n`,
		`chains of 1 steps: [1-9]\d* steps/s\n`, `chains of 5 steps: [1-9]\d* steps/s\n`, `chains of 20 steps: [1-9]\d* steps/s\n`,
		`training step, engine gorgonia: \d+\.\d ms\n`,
		`all checks passed\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if live := ort.Live(); live != before {
		t.Errorf("%d native objects are left, %d before", live, before)
	}
}

// Without a CUDA build, a GPU or a folder the check does not start, and says what to do.
func TestRefused(t *testing.T) {
	lib, err := ort.Find("")
	if err != nil {
		t.Skip(err)
	}
	alone := t.TempDir()
	data, err := os.ReadFile(lib.Path)
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(filepath.Join(alone, "libonnxruntime.so.1.99.0"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	for name, content := range map[string][]byte{"libonnxruntime.so": data, "libonnxruntime_providers_cuda.so": []byte("no library")} {
		if err := os.WriteFile(filepath.Join(broken, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no folder", []string{"-ort", filepath.Join(alone, "none")}, "no such folder"},
		{"empty folder", []string{"-ort", t.TempDir()}, "no libonnxruntime.so"},
		{"no CUDA provider", []string{"-ort", alone}, "no libonnxruntime_providers_cuda.so beside it); take a build of ONNX Runtime with CUDA: make gpu-libs"},
		{"CUDA provider that does not load", []string{"-ort", broken}, "provider cuda: does not work"},
		{"other provider", []string{"-provider", "tpu"}, "wanted cuda or cpu"},
		{"unknown network", []string{"-nets", "x"}, "convnet-silu"},
		{"unknown engine", []string{"-provider", "cpu", "-nets", "convnet-silu", "-engines", "magic", "-budget", "1ms"}, `engine "magic" is not known`},
	} {
		var out strings.Builder
		if err := run(t.Context(), c.args, &out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		if strings.Contains(out.String(), "passed") {
			t.Errorf("%s: %s", c.name, &out)
		}
	}
}

func TestAdvice(t *testing.T) {
	const load = "Failed to load library libonnxruntime_providers_cuda.so with error: %s: cannot open shared object file: No such file or directory"
	for what, want := range map[string]string{
		fmt.Sprintf(load, "libcuda.so.1"):                       "a machine with an NVIDIA GPU",
		fmt.Sprintf(load, "libcublasLt.so.13"):                  "CUDA_LIBS=FOLDER",
		"CUDA execution provider is not enabled in this build.": "make gpu-libs",
		"out of memory": "restart",
	} {
		err := advised(fault.New(fault.Internal, "provider cuda", "%s", what).Do("restart"))
		if !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := errors.New("other"); advised(err) != err {
		t.Error("an error without a place was changed")
	}
}

func TestPlacements(t *testing.T) {
	const gpu, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
	node := func(provider, op, output string) string {
		return `{"cat":"Node","args":{"provider":"` + provider + `","op_name":"` + op + `","output_type_shape":[` + output + `]}}`
	}
	conv := node(gpu, "Conv", `{"float":[64,16,16,16]}`)
	for _, c := range []struct {
		name, profile, text, err string
	}{
		{"all there", conv + "," + conv, "2 on " + gpu, ""},
		{"shapes on the CPU", conv + "," + node(cpu, "Shape", `{"int64":[4]}`) + "," + node(cpu, "Cast", `{"float":[]}`), "2 on " + cpu + ", 1 on " + gpu, ""},
		{"a copy", conv + "," + node(cpu, "MemcpyToHost", `{"float":[64,10]}`), "1 on " + cpu + ", 1 on " + gpu, ""},
		{"an operator astray", conv + "," + node(cpu, "ConvTranspose", `{"float":[64,1,28,28]}`) + "," + node(cpu, "Add", `{"float":[2]}`), "2 on " + cpu + ", 1 on " + gpu, "ran elsewhere: Add, ConvTranspose"},
		{"everything on the CPU", node(cpu, "Conv", `{"float":[64,16,16,16]}`), "1 on " + cpu, "no node ran on " + gpu},
		{"no nodes", `{"cat":"Session","args":{}}`, "", "no node ran on " + gpu},
	} {
		places, err := placements([]byte("[" + c.profile + "]"))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		text, err := judge(places, gpu)
		if text != c.text || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, error %v; want %q, %q", c.name, text, err, c.text, c.err)
		}
	}
	if _, err := placements([]byte("{")); err == nil {
		t.Error("a profile that is no JSON was read")
	}
}
