package runtime_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func TestCheckConfig(t *testing.T) {
	set := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for _, c := range []struct {
		cfg  ort.Config
		want []string
	}{
		{ort.Config{}, nil},
		{ort.Config{Provider: "cpu", Threads: 3, Options: set("session.intra_op.allow_spinning", "0", "cpu_arena", "0", "graph_optimization", "basic")}, nil},
		{ort.Config{Provider: "auto", Options: set("gpu_mem_limit", "1000000")}, nil},
		{ort.Config{Provider: "tensorrt", Options: set("trt_fp16_enable", "1", "device_id", "1")}, nil},
		{ort.Config{Provider: "cudo"}, []string{`provider "cudo" is not known; did you mean "cuda"?; wanted one of auto, cpu, cuda, tensorrt`}},
		{ort.Config{Threads: -1}, []string{"threads -1; wanted 0 (as many as there are cores to use) or more"}},
		{ort.Config{Provider: "cuda", Options: set("use_tf33", "1", "use_tf32", "yes")},
			[]string{`option "use_tf32" is "yes"; wanted one of 0, 1`, `option "use_tf33" is not known for provider cuda; did you mean "use_tf32"?`}},
		{ort.Config{Provider: "cpu", Options: set("use_tf32", "1")}, []string{`option "use_tf32" belongs to provider cuda, and the provider is cpu`}},
		{ort.Config{Options: set("session.intra_op.allow_spining", "1")},
			[]string{`option "session.intra_op.allow_spining" is not known for provider auto; did you mean "session.intra_op.allow_spinning"?`}},
		{ort.Config{Options: set("graph_optimization", "some")}, []string{`option "graph_optimization" is "some"; wanted one of disable, basic, extended, all`}},
	} {
		if diff := cmp.Diff(c.want, ort.CheckConfig(c.cfg)); diff != "" {
			t.Errorf("%+v: %s", c.cfg, diff)
		}
		if len(c.want) > 0 {
			if _, err := ort.Open(c.cfg, nil); fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), c.want[0]) {
				t.Errorf("Open(%+v) = %v, want a config error", c.cfg, err)
			}
		}
	}
}

func TestOpenSaysWhatItUses(t *testing.T) {
	open(t)
	var log bytes.Buffer
	r, err := ort.Open(ort.Config{}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	info := r.Info()
	if info.Threads != ort.Cores() || ort.Cores() > goruntime.NumCPU() || info.Library.Version == "" || info.Library.Source == "" {
		t.Errorf("%+v", info)
	}
	switch info.Provider {
	case "cuda":
	case "cpu":
		if len(info.Notes) == 0 || !strings.HasPrefix(info.Notes[len(info.Notes)-1], "provider cuda is not used: ") {
			t.Errorf("no note says why CUDA is not used: %+v", info.Notes)
		}
		if !strings.Contains(log.String(), "provider=cuda") {
			t.Errorf("the log does not say it: %s", log.String())
		}
	default:
		t.Errorf("provider %q", info.Provider)
	}
}

func TestNamedProviderIsUsedOrRefused(t *testing.T) {
	r := open(t)
	for _, p := range ort.Providers(r.Info().Library) {
		if p.Works != (p.Reason == "") || strings.Contains(p.Reason, "\n") {
			t.Errorf("%+v", p)
		}
		named, err := ort.Open(ort.Config{Provider: p.Name}, nil)
		if p.Works {
			if err != nil || named.Info().Provider != p.Name {
				t.Errorf("%s: %v", p.Name, err)
			} else {
				named.Close()
			}
			continue
		}
		if err == nil || fault.KindOf(err) != fault.Internal || !strings.HasPrefix(err.Error(), "provider "+p.Name+": does not work with ONNX Runtime ") ||
			!strings.Contains(err.Error(), "; give a ") {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// A library that has CUDA but cannot load it is not the same as one without: the CPU steps in with a warning.
func TestBrokenAcceleratorFallsBackAloud(t *testing.T) {
	lib, err := ort.Find("")
	if err != nil || goruntime.GOOS != "linux" {
		t.Skipf("no library of ONNX Runtime, so nothing is run: %v", err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "libonnxruntime.so")
	if err := os.Symlink(lib.Path, path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "libonnxruntime_providers_cuda.so"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r, err := ort.Open(ort.Config{Library: path}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if info := r.Info(); info.Provider != "cpu" || len(info.Notes) != 1 || !strings.HasPrefix(info.Notes[0], "provider cuda is not used: Failed to load") {
		t.Errorf("%+v", info)
	}
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("no warning: %s", log.String())
	}
	if _, err := ort.Open(ort.Config{}, nil); err == nil || !strings.Contains(err.Error(), "this process already uses another library, "+path) {
		t.Errorf("a second library: %v", err)
	}
	r.Close()
	if _, err := ort.Open(ort.Config{Library: path, Provider: "cuda"}, nil); err == nil || fault.KindOf(err) != fault.Internal ||
		!strings.Contains(err.Error(), ": Failed to load") || !strings.HasSuffix(err.Error(), "or use provider cpu") {
		t.Errorf("CUDA by name: %v", err)
	}
	if n := ort.Live(); n != 0 {
		t.Errorf("%d native objects are left open", n)
	}
}

func TestOptionsReachTheSession(t *testing.T) {
	open(t)
	options := map[string]string{"cpu_arena": "0", "memory_pattern": "0", "graph_optimization": "disable", "session.intra_op.allow_spinning": "0"}
	r, err := ort.Open(ort.Config{Provider: "cpu", Threads: 1, Options: options}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// Nothing but the CPU is there to run the model, and this option forbids it to step in.
	options["session.disable_cpu_ep_fallback"] = "1"
	if _, err := ort.Open(ort.Config{Provider: "cpu", Options: options}, nil); err == nil || !strings.Contains(err.Error(), "fallback to CPU EP has been explicitly disabled") {
		t.Errorf("got %v", err)
	}
}

func TestEnvironmentOpensAgain(t *testing.T) {
	open(t)
	for range 3 {
		r, err := ort.Open(ort.Config{Provider: "cpu"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
}

// ONNX Runtime writes nothing of its own to standard error, whatever goes wrong.
func TestNothingOnStandardError(t *testing.T) {
	if os.Getenv("JEMPIPE_TEST_CHILD") == "" {
		open(t)
		child := exec.Command(os.Args[0], "-test.run=^TestNothingOnStandardError$")
		child.Env = append(os.Environ(), "JEMPIPE_TEST_CHILD=1")
		var stderr bytes.Buffer
		child.Stderr = &stderr
		if out, err := child.Output(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		if stderr.Len() > 0 {
			t.Errorf("standard error holds %q", stderr.String())
		}
		return
	}
	r := open(t)
	for _, p := range ort.Providers(r.Info().Library) {
		t.Log(p)
	}
	if _, err := r.Session([]byte("no model"), ort.SessionOptions{}); err == nil {
		t.Error("text was loaded as a model")
	}
	s := load(t, r, unary("Neg", testValue{name: "x", typ: typeFloat, shape: []int64{-1, 2}}, testValue{name: "y", typ: typeFloat, shape: []int64{-1, 2}}))
	out := []*ort.Tensor{tensor(t, []int64{5, 2})}
	if err := s.Run(context.Background(), []*ort.Tensor{tensor(t, []int64{1, 2})}, out); err == nil {
		t.Error("an output of another size was accepted")
	}
}
