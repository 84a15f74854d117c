package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// Options is what a plan or a run takes beside the configuration. The zero value will do.
type Options struct {
	Log         *slog.Logger // nil: nothing is logged
	Observer    Observer     // nil: nobody watches
	ToolVersion string       // for run.json and the metadata of results; no part of the fingerprint

	Force []string // stages that run even where their results hold
	Only  []string // stages that may run; what they need must be up to date. Empty: all

	// OpenRuntime opens ONNX Runtime, at most once; nil opens it as the configuration says.
	OpenRuntime func() (*ort.Runtime, error)
	// RuntimeInfo says which ONNX Runtime results come from; nil opens it and asks.
	RuntimeInfo func() (ort.Info, error)
}

// engine decides what must run. It writes nothing.
type engine struct {
	cfg    *Config
	opts   Options
	log    *slog.Logger
	watch  Observer
	runDir string
	set    *datasets.Set
	hash   *hasher
	info   ort.Info
	rt     runtimeOnce
	held   map[string]*Manifest // stages whose results hold by now
	seen   map[string]string    // input file -> SHA-256 when first read
}

// runtimeOnce opens ONNX Runtime when it is first asked for.
type runtimeOnce struct {
	once sync.Once
	rt   *ort.Runtime
	err  error
}

func (e *engine) runtime() (*ort.Runtime, error) {
	e.rt.once.Do(func() {
		if e.opts.OpenRuntime != nil {
			e.rt.rt, e.rt.err = e.opts.OpenRuntime()
		} else {
			e.rt.rt, e.rt.err = ort.Open(e.cfg.Runtime, e.log)
		}
	})
	return e.rt.rt, e.rt.err
}

func (e *engine) close() {
	if e.rt.rt == nil {
		return
	}
	if err := e.rt.rt.Close(); err != nil {
		e.log.Warn("closing ONNX Runtime", "error", err)
	}
	e.rt.rt = nil
}

func newEngine(cfg *Config, opts Options) (*engine, error) {
	e := &engine{
		cfg: cfg, opts: opts, log: opts.Log, watch: opts.Observer,
		runDir: cfg.RunDir(), set: cfg.set(),
		held: map[string]*Manifest{}, seen: map[string]string{},
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.watch == nil {
		e.watch = Observers()
	}
	for _, list := range [][]string{opts.Force, opts.Only} {
		for _, name := range list {
			if cfg.Stage(name) == nil {
				return nil, fault.New(fault.Usage, "", "%s has no stage %q%s", cfg.File, name, didYouMean(name, cfg.stageNames()))
			}
		}
	}
	e.hash = openHasher(e.runDir)
	var err error
	if opts.RuntimeInfo != nil {
		e.info, err = opts.RuntimeInfo()
	} else {
		var rt *ort.Runtime
		if rt, err = e.runtime(); err == nil {
			e.info = rt.Info()
		}
	}
	return e, err
}

func (c *Config) stageNames() []string {
	names := make([]string, len(c.Stages))
	for i, s := range c.Stages {
		names[i] = s.Name
	}
	return names
}

func (e *engine) dir(stage string) string { return filepath.Join(e.runDir, stage) }

// inputs gathers what decides a stage's results, and the files among it by data set ("" for a stage's own). The hash of
// a stage that must run first is empty.
func (e *engine) inputs(ctx context.Context, s *StageConfig) (Inputs, map[string][]string, error) {
	files := map[string][]string{}
	in := Inputs{
		Stage: s.Name, Kind: s.Kind.Name, Version: s.Kind.Version, Config: canonicalJSON(s.Config),
		Data: map[string]DataInput{}, Files: map[string]string{}, Stages: map[string]string{},
		Seed: e.cfg.Seed, Result: ResultVersion,
		Runtime: RuntimeInput{e.info.Library.Version, e.info.Provider, e.info.Threads, maps.Clone(e.cfg.Runtime.Options)},
	}
	if in.Runtime.Options == nil {
		in.Runtime.Options = map[string]string{}
	}
	if s.Kind.ReadsConfigText {
		in.ConfigText = hashOf(e.cfg.Text)
	}
	for _, name := range s.Needs() {
		in.Stages[name] = ""
		if m := e.held[name]; m != nil {
			in.Stages[name] = m.OutputHash
		}
	}
	for _, name := range s.DataSets() {
		set, err := e.set.Get(name)
		if err != nil {
			return in, nil, err
		}
		d := DataInput{Identity: e.set.Identity(name), Files: []string{}}
		for _, path := range set.Files() {
			sum, err := e.inputHash(ctx, path, "data."+name)
			if err != nil {
				return in, nil, err
			}
			d.Files = append(d.Files, sum)
			files[name] = append(files[name], path)
		}
		in.Data[name] = d
	}
	for _, name := range s.needs(fileRefType) {
		path := e.cfg.path(name)
		sum, err := e.inputHash(ctx, path, "stages."+s.Name)
		if err != nil {
			return in, nil, err
		}
		in.Files[name] = sum
		files[""] = append(files[""], path)
	}
	if l, ok := s.Config.(FileLister); ok {
		more, err := l.MoreFiles(func(ref FileRef) string { return e.cfg.path(string(ref)) })
		if err != nil {
			return in, nil, fault.New(fault.Data, "stages."+s.Name, "%v", err)
		}
		for _, path := range more {
			sum, err := e.inputHash(ctx, path, "stages."+s.Name)
			if err != nil {
				return in, nil, err
			}
			in.Files["+"+filepath.Base(path)] += sum
			files[""] = append(files[""], path)
		}
	}
	return in, files, nil
}

// path makes a path of the configuration absolute.
func (c *Config) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.Dir, p)
}

// inputHash hashes an input file. A file that changes while the pipeline runs is an error: some stages would have read
// the one content and some the other.
func (e *engine) inputHash(ctx context.Context, path, by string) (string, error) {
	h, err := e.hash.file(ctx, path)
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fault.New(fault.Data, path, "the file named by %s cannot be read", by).Because(cause(err))
	}
	if before, ok := e.seen[path]; ok && before != h.SHA256 {
		return "", fault.New(fault.Data, path, "the file has changed while the pipeline was running").Do("run again")
	}
	e.seen[path] = h.SHA256
	return h.SHA256, nil
}

// cause is the system's part of a file error, whose path stands in the message already.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// decision is what to do with a stage.
type decision struct {
	step   Step
	inputs Inputs
	files  map[string][]string
	have   *Manifest // what holds, where the action is Reuse
}

// decide compares the recorded result of a stage with what it would be made from now.
func (e *engine) decide(ctx context.Context, s *StageConfig) (decision, error) {
	in, files, err := e.inputs(ctx, s)
	if err != nil {
		return decision{}, err
	}
	d := decision{step: Step{Name: s.Name, Kind: s.Kind.Name, Action: Execute}, inputs: in, files: files}
	var why []string
	if slices.Contains(e.opts.Force, s.Name) && e.held[s.Name] == nil {
		why = append(why, "forced")
	}
	switch first := e.unheld(s); len(first) {
	case 0:
		d.step.Fingerprint = in.Fingerprint()
	case 1:
		why = append(why, "upstream "+first[0]+" runs")
	default:
		why = append(why, "upstream "+strings.Join(first, ", ")+" run")
	}
	m, err := readManifest(e.dir(s.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = append(why, "no result yet")
	case err != nil:
		why = append(why, err.Error())
	default:
		why = append(why, differences(m.Inputs, in, files)...)
		if len(why) == 0 && m.Fingerprint != d.step.Fingerprint {
			why = append(why, "its inputs changed")
		}
		if len(why) == 0 {
			if why, err = e.damaged(ctx, s.Name, m); err != nil {
				return d, err
			}
		}
	}
	d.step.Why = why
	if len(why) == 0 {
		d.step.Action, d.have = Reuse, m
	}
	return d, nil
}

// unheld lists the stages that s needs and that must run first, in run order.
func (e *engine) unheld(s *StageConfig) []string {
	var names []string
	for _, other := range e.cfg.Stages {
		if e.held[other.Name] == nil && slices.Contains(s.Needs(), other.Name) {
			names = append(names, other.Name)
		}
	}
	return names
}

// differences explains why two sets of inputs are not the same. Stages that are still to run are left to the caller.
func differences(before, now Inputs, files map[string][]string) []string {
	var why []string
	if before.Stage != now.Stage {
		why = append(why, fmt.Sprintf("the stage was called %s", before.Stage))
	}
	if before.Kind != now.Kind {
		return append(why, fmt.Sprintf("kind changed (%s -> %s)", before.Kind, now.Kind))
	}
	if before.Version != now.Version {
		why = append(why, fmt.Sprintf("code version of kind %s changed (%d -> %d)", now.Kind, before.Version, now.Version))
	}
	if before.Result != now.Result {
		why = append(why, fmt.Sprintf("version of the program's results changed (%d -> %d)", before.Result, now.Result))
	}
	if keys := changedKeys(before.Config, now.Config); len(keys) > 0 {
		why = append(why, "config changed: "+strings.Join(keys, ", "))
	}
	if before.ConfigText != now.ConfigText {
		why = append(why, "text of the configuration file changed")
	}
	if before.Seed != now.Seed {
		why = append(why, fmt.Sprintf("seed changed (%d -> %d)", before.Seed, now.Seed))
	}
	for _, name := range slices.Sorted(maps.Keys(now.Data)) {
		old, ok := before.Data[name]
		switch {
		case !ok: // the config names it now, which is told already
		case old.Identity != now.Data[name].Identity:
			why = append(why, "entry data."+name+" changed")
		case !slices.Equal(old.Files, now.Data[name].Files):
			why = append(why, "input data "+name+" changed"+changedFile(old.Files, now.Data[name].Files, files[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Files)) {
		if old, ok := before.Files[name]; ok && old != now.Files[name] {
			why = append(why, "input file "+name+" changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Stages)) {
		if old, ok := before.Stages[name]; ok && now.Stages[name] != "" && old != now.Stages[name] {
			why = append(why, "results of "+name+" changed")
		}
	}
	return append(why, runtimeDifferences(before.Runtime, now.Runtime)...)
}

// changedFile names the first file whose hash differs, where the number of files is the same.
func changedFile(before, now, paths []string) string {
	if len(before) != len(now) {
		return fmt.Sprintf(" (%d files -> %d)", len(before), len(now))
	}
	for i := range now {
		if before[i] != now[i] && i < len(paths) {
			return " (" + filepath.Base(paths[i]) + ")"
		}
	}
	return ""
}

func runtimeDifferences(before, now RuntimeInput) []string {
	var what []string
	add := func(name string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			what = append(what, fmt.Sprintf("%s %v -> %v", name, a, b))
		}
	}
	add("version", before.Version, now.Version)
	add("provider", before.Provider, now.Provider)
	add("threads", before.Threads, now.Threads)
	if !maps.Equal(before.Options, now.Options) {
		what = append(what, "options")
	}
	if len(what) == 0 {
		return nil
	}
	return []string{"runtime changed: " + strings.Join(what, ", ")}
}

// damaged compares a stage's files with its manifest, and says what is missing or changed.
func (e *engine) damaged(ctx context.Context, stage string, m *Manifest) ([]string, error) {
	var why []string
	for _, path := range slices.Sorted(maps.Keys(m.Outputs)) {
		h, err := e.hash.file(ctx, filepath.Join(e.dir(stage), filepath.FromSlash(path)))
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, os.ErrNotExist):
			why = append(why, "output "+path+" is missing")
		case err != nil:
			why = append(why, fmt.Sprintf("output %s cannot be read: %v", path, cause(err)))
		case h.SHA256 != m.Outputs[path].SHA256:
			why = append(why, "output "+path+" was changed")
		}
	}
	if m.OutputHash != outputHash(m.Outputs) {
		why = append(why, "its "+manifestName+" was changed")
	}
	if len(why) > 3 {
		why = append(why[:3], fmt.Sprintf("and %d more", len(why)-3))
	}
	return why, nil
}
