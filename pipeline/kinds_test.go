package pipeline

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// The stage kinds of the tests write small text files that follow from their configuration, data files and upstream
// results. hook, where set, runs in the middle of a stage: between the two halves of its file.

type hook func(ctx context.Context, rc *RunContext) error

type optimizer struct {
	Name  string   `yaml:"name" enum:"adam|sgd" doc:"Which."`
	LR    float64  `yaml:"lr" min:"1e-9" below:"1" default:"0.1" doc:"Step."`
	Betas []string `yaml:"betas" doc:"Texts."`
}

type trainStage struct {
	Data      DataRef        `yaml:"data" required:"true" doc:"Rows to learn from."`
	Validate  DataRef        `yaml:"validate" default:"valid" doc:"Rows to check with."`
	Objective string         `yaml:"objective" enum:"jem|classifier" doc:"What to minimise."`
	Epochs    int            `yaml:"epochs" min:"1" max:"1000" doc:"Passes."`
	LogEvery  int            `yaml:"log_every" fingerprint:"-" doc:"Steps between log lines."`
	Optimizer optimizer      `yaml:"optimizer" doc:"Solver."`
	Widths    []int          `yaml:"widths" min:"1" doc:"Layer widths."`
	Flip      bool           `yaml:"flip" doc:"Mirror."`
	Weights   map[string]int `yaml:"weights" doc:"By name."`
	Extra     *optimizer     `yaml:"extra" doc:"Another solver."`
	Init      FileRef        `yaml:"init" doc:"Start values."`
	hook
}

func (s *trainStage) Lint(lc *LintContext) {
	if s.Optimizer.Name == "sgd" && lc.Has("optimizer.betas") {
		lc.Problem("optimizer.betas", "sgd has none")
	}
}

func (s *trainStage) Run(ctx context.Context, rc *RunContext) error {
	text := fmt.Sprintf("%s %d %g seed %d", s.Objective, s.Epochs, s.Optimizer.LR, rc.Seed)
	if s.Init != "" {
		init, err := os.ReadFile(rc.File(s.Init))
		if err != nil {
			return err
		}
		text += " " + string(init)
	}
	data, err := rc.Data.Get(string(s.Data))
	if err != nil {
		return err
	}
	rc.Detail("rows_read", data.Info().Rows)
	return writeHalves(ctx, rc, s.hook, text+" "+rc.DataHash(s.Data))
}

type modelKeys struct {
	Stage StageRef `yaml:"stage" kinds:"train" default:"train" required:"true" unless:"onnx" scalar:"true" doc:"Stage that made the model."`
	ONNX  FileRef  `yaml:"onnx" doc:"File with a model."`
}

type inferStage struct {
	Model modelKeys `yaml:"model" doc:"What to run."`
	Data  []DataRef `yaml:"data" default:"*" doc:"Rows to score."`
	hook
}

func (s *inferStage) Lint(*LintContext) {}

func (s *inferStage) Run(ctx context.Context, rc *RunContext) error {
	text := fmt.Sprint(s.Data, " ", rc.FileHash(s.Model.ONNX))
	if s.Model.Stage != "" {
		up, err := os.ReadFile(filepath.Join(rc.StageDir(s.Model.Stage), "sub", "out.txt"))
		if err != nil {
			return err
		}
		text += " " + strings.ToUpper(string(up))
	}
	return writeHalves(ctx, rc, s.hook, text)
}

type reportStage struct {
	Stages []StageRef `yaml:"stages" default:"*" doc:"What to show."`
	hook
}

func (s *reportStage) Lint(*LintContext) {}

func (s *reportStage) Run(ctx context.Context, rc *RunContext) error {
	var b strings.Builder
	for _, info := range rc.Manifests() {
		fmt.Fprintf(&b, "%s %s %d\n", info.Manifest.Stage, info.Manifest.OutputHash, info.Manifest.Rows())
	}
	return writeHalves(ctx, rc, s.hook, b.String())
}

func writeHalves(ctx context.Context, rc *RunContext, h hook, text string) error {
	path := rc.Dir.Path("sub", "out.txt")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	half := len(text) / 2
	if err := os.WriteFile(path, []byte(text[:half]), 0o644); err != nil {
		return err
	}
	if h != nil {
		if err := h(ctx, rc); err != nil {
			return err
		}
	}
	rc.Rows("sub/out.txt", int64(len(text)))
	rc.Measure("speed", 17.5)
	return os.WriteFile(path, []byte(text), 0o644)
}

func testRegistry(h hook) *Registry {
	return NewRegistry(
		Kind{Name: "train", Summary: "Trains.", Version: 1, New: func() Stage {
			return &trainStage{Objective: "jem", Epochs: 2, Optimizer: optimizer{Name: "adam", LR: 0.1}, hook: h}
		}},
		Kind{Name: "infer", Summary: "Scores.", Version: 1, New: func() Stage { return &inferStage{hook: h} }},
		Kind{Name: "report", Summary: "Draws.", Version: 1, New: func() Stage { return &reportStage{hook: h} }},
	)
}

// project is a folder with a pipeline.yaml and its data.
type project struct {
	t    testing.TB
	dir  string
	info ort.Info
	reg  *Registry
}

const projectYAML = `version: 1
name: tiny
seed: 3
data:
  train: {source: idx, images: images.idx, num_classes: 2, labels: labels.idx}
  valid: {source: idx, images: images.idx, skip: 1}
stages:
  report:
  infer: {model: train}
  train: {data: train, init: init.txt}
  baseline: {kind: train, data: train, epochs: 1, log_every: 5}
`

func newProject(t testing.TB) *project {
	p := &project{t: t, dir: t.TempDir(), reg: testRegistry(nil)}
	p.info = ort.Info{Library: ort.Library{Version: "1.2.3", Path: "/lib"}, Provider: "cpu", Threads: 2}
	p.write("pipeline.yaml", projectYAML)
	p.write("images.idx", idx([]int{3, 2, 2}, 0))
	p.write("labels.idx", idx([]int{3}, 1))
	p.write("init.txt", "zeros")
	return p
}

func (p *project) path(name string) string { return filepath.Join(p.dir, name) }

func (p *project) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) read(name string) string {
	p.t.Helper()
	text, err := os.ReadFile(p.path(name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

func (p *project) replace(name, old, text string) {
	p.t.Helper()
	before := p.read(name)
	if !strings.Contains(before, old) {
		p.t.Fatalf("%s does not contain %q", name, old)
	}
	p.write(name, strings.Replace(before, old, text, 1))
}

func (p *project) load() *Config {
	p.t.Helper()
	cfg, err := Load(p.path("pipeline.yaml"), p.reg)
	if err != nil {
		p.t.Fatal(err)
	}
	return cfg
}

func (p *project) opts() Options {
	return Options{ToolVersion: "test", RuntimeInfo: func() (ort.Info, error) { return p.info, nil }}
}

// run runs the pipeline and gives the stages that ran.
func (p *project) run() []string {
	p.t.Helper()
	res, err := Run(context.Background(), p.load(), p.opts())
	if err != nil {
		p.t.Fatal(err)
	}
	return res.Ran
}

// plan gives one line a stage.
func (p *project) plan() []string {
	p.t.Helper()
	plan, err := NewPlan(context.Background(), p.load(), p.opts())
	if err != nil {
		p.t.Fatal(err)
	}
	var out []string
	for _, s := range plan.Steps {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s: %s", s.Action, s.Name, strings.Join(s.Why, "; "))))
	}
	return out
}

// tree gives the content of every file below a folder, without the run's own records of times.
func (p *project) tree(dir string) map[string]string {
	p.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(p.path(dir), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(p.path(dir), path)
		if rel == "run.json" || rel == ".lock" || strings.HasPrefix(rel, ".cache/") {
			return nil
		}
		text, err := os.ReadFile(path)
		out[rel] = string(text)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// idx is a file in the MNIST format whose bytes count up from start, modulo 2 for labels.
func idx(shape []int, start int) string {
	b := []byte{0, 0, 8, byte(len(shape))}
	n := 1
	for _, d := range shape {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
		n *= d
	}
	for i := range n {
		v := start + i
		if len(shape) == 1 {
			v %= 2
		}
		b = append(b, byte(v))
	}
	return string(b)
}
