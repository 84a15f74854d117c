package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/model"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// fakePeer makes the test binary play the Python process: its value says how.
const fakePeer = "JEMPIPE_TEST_FAKE_PEER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakePeer); mode != "" {
		playPeer(mode)
		return
	}
	os.Exit(m.Run())
}

// playPeer answers requests as PyTorch's process does. The score it writes is the rows it is given.
func playPeer(mode string) {
	if slices.Contains(os.Args, "import numpy, torch") {
		return
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var r struct {
			Op, X, Score string
			Repeats      int
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			panic(err)
		}
		switch {
		case r.Op == "about":
			fmt.Println(`{"torch": "9.9", "python": "3.99", "threads": 2, "device": "cpu"}`)
		case mode == "dies":
			fmt.Fprintln(os.Stderr, "first line\nout of memory")
			os.Exit(1)
		case mode == "fails":
			fmt.Println(`{"error": "ValueError: no"}`)
		case r.Op == "net":
			data, err := os.ReadFile(r.X)
			if err != nil {
				panic(err)
			}
			if err := os.WriteFile(r.Score, data, 0o600); err != nil {
				panic(err)
			}
			fmt.Println(`{"parameters": 45}`)
		default:
			fmt.Printf("{\"ms\": [1.5%s], \"note\": \"channels_last\"}\n", strings.Repeat(", 2", r.Repeats-1))
		}
	}
}

// tiny has 45 parameters.
func tiny(t testing.TB) (model.Arch, model.Params) {
	t.Helper()
	net := Net{Name: "tiny", Build: func() (model.Arch, error) { return model.MLP([]int{8}, 5, nil, model.Style{Act: model.SiLU}) }}
	arch, params, err := net.Init()
	if err != nil {
		t.Fatal(err)
	}
	return arch, params
}

func startFake(t *testing.T, mode string) *Torch {
	t.Helper()
	t.Setenv(fakePeer, mode)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	torch, err := StartTorch(t.Context(), self, "cpu", 2)
	if err != nil {
		t.Fatal(err)
	}
	return torch
}

func TestPeerIsAsked(t *testing.T) {
	torch := startFake(t, "works")
	if want := "PyTorch 9.9, Python 3.99, cpu, 2 threads"; torch.About != want {
		t.Errorf("about %q, want %q", torch.About, want)
	}
	arch, params := tiny(t)
	x := Samples(3, 8)
	if err := torch.Load("tiny", arch, params, Config(), x, x); err != nil {
		t.Errorf("equal gradients: %v", err)
	}
	other := slices.Clone(x)
	other[0] += 0.1
	if err := torch.Load("tiny", arch, params, Config(), x, other); err == nil || !strings.Contains(err.Error(), "not the same") {
		t.Errorf("gradients that differ: error %v", err)
	}
	arch, params = small(), nil
	if err := torch.Load("small", arch, params, Config(), x, x); err == nil || !strings.Contains(err.Error(), "45 parameters, ours 0") {
		t.Errorf("another number of parameters: error %v", err)
	}
	took, note, err := torch.Time("tiny", "eager", "step", 3)
	if err != nil || note != "channels_last" || !slices.Equal(took, []time.Duration{1500 * time.Microsecond, 2 * time.Millisecond, 2 * time.Millisecond}) {
		t.Errorf("times %v, note %q, error %v", took, note, err)
	}
	if err := torch.Close(); err != nil {
		t.Error(err)
	}
}

func TestPeerFails(t *testing.T) {
	torch := startFake(t, "fails")
	if _, _, err := torch.Time("tiny", "compile", "step", 3); err == nil || err.Error() != "ValueError: no" {
		t.Errorf("error %v, want that of the peer", err)
	}
	if err := torch.Close(); err != nil {
		t.Error(err)
	}
	torch = startFake(t, "dies")
	if _, _, err := torch.Time("tiny", "eager", "step", 3); err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("error %v, want the last line that the peer wrote", err)
	}
}

func TestPyTorchIsNotInstalled(t *testing.T) {
	for _, python := range []string{"", filepath.Join(t.TempDir(), "python"), "false"} {
		if _, err := StartTorch(t.Context(), python, "cpu", 2); !errors.Is(err, ErrNotInstalled) {
			t.Errorf("%q: error %v, want that PyTorch is not installed", python, err)
		}
	}
}

// With PyTorch in the user's cache, its network and the product's have the same gradient, and both can be timed.
func TestPyTorchHasTheSameNetworks(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	torch, err := StartTorch(t.Context(), filepath.Join(cache, "jempipe", "bench-venv", "bin", "python"), "cpu", 1)
	if errors.Is(err, ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer torch.Close()
	rt := open(t)
	for _, net := range Nets {
		if net.Large {
			continue
		}
		arch, params, err := net.Init()
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config()
		cfg.BatchSize, cfg.Sampler.Steps, cfg.Sampler.BufferSize = 4, 1, 64
		o, err := NewOurs(rt, arch, params, "", cfg)
		if err != nil {
			t.Fatal(err)
		}
		x := Samples(2, arch.Size())
		score, err := o.Score(t.Context(), x)
		o.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := torch.Load(net.Name, arch, params, cfg, x, score); err != nil {
			t.Error(err)
			continue
		}
		for _, what := range []string{"chain", "step"} {
			if took, _, err := torch.Time(net.Name, "eager", what, 2); err != nil || len(took) != 2 || took[0] <= 0 {
				t.Errorf("%s, %s: times %v, error %v", net.Name, what, took, err)
			}
		}
	}
}

func open(t *testing.T) *ort.Runtime {
	t.Helper()
	rt, err := ort.Open(ort.Config{Provider: "cpu"}, nil)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// A step of each engine changes every parameter; nothing native is left behind.
func TestOurSteps(t *testing.T) {
	rt := open(t)
	before := ort.Live()
	cfg := Config()
	cfg.BatchSize, cfg.Sampler.Steps, cfg.Sampler.BufferSize = 8, 2, 64
	for _, engine := range Engines() {
		arch, params := tiny(t)
		start := params.Clone()
		o, err := NewOurs(rt, arch, params, engine, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []func(context.Context, int) ([]time.Duration, error){o.Steps, o.Chains} {
			if took, err := run(t.Context(), 3); err != nil || len(took) != 3 || slices.Min(took) <= 0 {
				t.Errorf("engine %s: times %v, error %v", engine, took, err)
			}
		}
		for i, p := range params {
			if slices.Equal(p.Data, start[i].Data) {
				t.Errorf("engine %s: parameter %s did not change", engine, p.Name)
			}
		}
		o.Close()
	}
	if live := ort.Live(); live != before {
		t.Errorf("%d native objects are left, %d before", live, before)
	}
	arch, params := tiny(t)
	if _, err := NewOurs(rt, arch, params, "magic", cfg); err == nil || !strings.Contains(err.Error(), "gorgonia") {
		t.Errorf("unknown engine: error %v", err)
	}
	o, err := NewOurs(rt, arch, params, "", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := o.Steps(t.Context(), 1); err == nil {
		t.Error("steps without an engine")
	}
}

func TestFind(t *testing.T) {
	saved := Nets
	defer func() { Nets = saved }()
	Nets = []Net{{Name: "a"}, {Name: "b"}, {Name: "c", Large: true}}
	for _, c := range []struct {
		names string
		large bool
		want  string
	}{{"", false, "ab"}, {"", true, "abc"}, {"c,a", false, "ca"}, {"b", true, "b"}} {
		found, err := Find(c.names, c.large)
		got := ""
		for _, n := range found {
			got += n.Name
		}
		if err != nil || got != c.want {
			t.Errorf("%q, large %t: %q, error %v; want %q", c.names, c.large, got, err, c.want)
		}
	}
	if len(Nets) != 3 || Nets[2].Name != "c" {
		t.Errorf("the list itself was changed: %v", Nets)
	}
	if _, err := Find("a,d", false); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "a, b, c") {
		t.Errorf("error %v, want one that lists the names", err)
	}
}

func TestMedianAndDifference(t *testing.T) {
	for _, c := range []struct {
		times []time.Duration
		want  time.Duration
	}{{nil, 0}, {[]time.Duration{7}, 7}, {[]time.Duration{9, 1, 3}, 3}, {[]time.Duration{10, 2, 4, 100}, 7}} {
		if got := Median(c.times); got != c.want {
			t.Errorf("median of %v: %v, want %v", c.times, got, c.want)
		}
	}
	if d := Difference([]float32{3, 4.5}, []float32{3, 4}); math.Abs(d-0.1) > 1e-12 {
		t.Errorf("difference %v, want 0.1", d)
	}
	if d := Difference([]float32{1}, []float32{1, 2}); !math.IsNaN(d) {
		t.Errorf("difference of unequal lengths is %v, want NaN", d)
	}
}
