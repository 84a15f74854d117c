// Package pipeline turns pipeline.yaml into a run: it reads and checks the file, derives the graph of stages from their
// references, decides by content which of them must run, runs those in order and keeps the record.
//
// Stages are known by interface only; a Registry says which kinds there are.
package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// ResultVersion is part of every fingerprint. It is raised when code outside the stage kinds changes results.
const ResultVersion = 1

// Names become directories and parts of file names.
var (
	stageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	runName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// Config is a checked configuration file. Fields may be changed before a plan is made, as command line flags do.
type Config struct {
	File string // as given to Load
	Dir  string // absolute folder of the file; relative paths start here
	Text []byte // the file's content
	Hash string // SHA-256 of Text, hex

	Name    string
	Output  string // absolute, or relative to Dir
	Seed    uint64
	Runtime ort.Config
	Data    map[string]datasets.Spec
	Stages  []*StageConfig // in the order in which they run
}

// StageConfig is one entry under stages:.
type StageConfig struct {
	Name   string
	Kind   Kind
	Config Stage // defaults and references filled in

	refs []ref
}

// RunDir is the absolute directory of the run.
func (c *Config) RunDir() string {
	out := c.Output
	if !filepath.IsAbs(out) {
		out = filepath.Join(c.Dir, out)
	}
	return filepath.Join(out, c.Name)
}

// Stage finds a stage by name; nil where there is none.
func (c *Config) Stage(name string) *StageConfig {
	for _, s := range c.Stages {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// file is the layout of pipeline.yaml, but for the stages, whose layout depends on their kind.
type file struct {
	Version int                      `yaml:"version" required:"true" min:"1" max:"1" doc:"Version of this file format."`
	Name    string                   `yaml:"name" required:"true" doc:"Name of the run; its results are in the folder OUTPUT/NAME."`
	Output  string                   `yaml:"output" default:"runs" doc:"Folder of all runs, relative to this file."`
	Seed    uint64                   `yaml:"seed" default:"1" doc:"Every random number follows from it: the same seed gives the same results."`
	Runtime runtimeKeys              `yaml:"runtime" doc:"How ONNX Runtime computes."`
	Data    map[string]datasets.Spec `yaml:"data" doc:"Data sets by name."`
}

type runtimeKeys struct {
	Provider string            `yaml:"provider" default:"auto" doc:"Execution provider: cpu, cuda and so on; auto takes the best one that works on this machine."`
	Threads  int               `yaml:"threads" min:"0" max:"4096" default:"0" doc:"Batches that infer scores side by side, one thread each; 0 takes as many as the process may use. Training and sampling go by shards instead. Part of the fingerprint: set it where machines differ, or stages run again."`
	Options  map[string]string `yaml:"options" doc:"Options of the provider, by the names that ONNX Runtime gives them."`
}

// Load reads and checks a configuration file. All findings come at once, as a *ConfigError.
func Load(path string, reg *Registry) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, fault.New(fault.Config, path, "the configuration cannot be read").Because(err)
	}
	return Parse(path, text, reg)
}

// Parse is Load for text that is read already; path names it in findings and says where relative paths start.
func Parse(path string, text []byte, reg *Registry) (*Config, error) {
	if err := reg.Err(); err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.New(fault.Config, path, "the path cannot be made absolute").Because(err)
	}
	sum := sha256.Sum256(text)
	l := loader{
		decoder: newDecoder(&findings{file: path}),
		reg:     reg,
		cfg:     &Config{File: path, Dir: filepath.Dir(abs), Text: text, Hash: hex.EncodeToString(sum[:])},
		broken:  map[string]bool{},
	}
	l.load()
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.cfg, nil
}

type loader struct {
	*decoder
	reg    *Registry
	cfg    *Config
	broken map[string]bool // stages that have findings or an unknown kind
}

func (l *loader) load() {
	root := parseYAML(l.cfg.Text, l.findings)
	if root == nil {
		return
	}
	f := file{Output: "runs", Seed: 1, Runtime: runtimeKeys{Provider: "auto"}}
	l.object(root, reflect.ValueOf(&f).Elem(), "", "stages")
	if root.kind != mapNode {
		return
	}
	c := l.cfg
	c.Name, c.Output, c.Seed, c.Data = f.Name, f.Output, f.Seed, f.Data
	c.Runtime = ort.Config{Provider: f.Runtime.Provider, Threads: f.Runtime.Threads, Options: f.Runtime.Options}
	if _, given := root.get("name"); given && !l.has("name") && !runName.MatchString(f.Name) {
		l.add(l.placeOf("name"), "name", NotAllowed, "%q cannot be the name of a folder here: letters, digits, dots, dashes and underscores are wanted", clip(f.Name))
	}
	stages, _ := root.get("stages")
	l.stages(stages)
	l.references()
	l.lintData(root)
	for _, msg := range ort.CheckConfig(c.Runtime) {
		l.add(l.placeOf("runtime"), "runtime", Problem, "%s", msg)
	}
	l.lintStages()
	l.order()
}

// stages decodes each entry by its kind.
func (l *loader) stages(e entry) {
	if e.value == nil {
		l.add(place{1, 1}, "stages", MissingKey, "the key is missing: a mapping of stage names to their keys wanted")
		return
	}
	l.keys["stages"], l.values["stages"] = e.at, e.value.at
	// New fills in the defaults of a stage; those of the structs in its lists and mappings are known from tags alone.
	l.fresh = fromTags
	if e.value.kind != mapNode || len(e.value.entries) == 0 {
		l.add(e.at, "stages", WrongType, "%s found, a mapping of stage names to their keys wanted", e.value.found())
		return
	}
	for _, s := range e.value.entries {
		path := joined("stages", s.key)
		l.keys[path], l.values[path] = s.at, s.value.at
		if !stageName.MatchString(s.key) {
			l.add(s.at, path, NotAllowed, "%q cannot be the name of a stage: letters, digits, dashes and underscores are wanted", clip(s.key))
			continue
		}
		before := len(l.all) + l.lost
		sc := &StageConfig{Name: s.key}
		if kind, ok := l.kindOf(s, path); ok {
			sc.Kind, sc.Config = kind, kind.New()
			l.object(s.value, reflect.ValueOf(sc.Config).Elem(), path, "kind")
		}
		l.broken[s.key] = len(l.all)+l.lost > before
		l.cfg.Stages = append(l.cfg.Stages, sc)
	}
}

// kindOf finds the kind of a stage before its keys are read, so that they are held against one kind only.
func (l *loader) kindOf(s entry, path string) (Kind, bool) {
	name, at, at2 := s.key, s.at, path
	e, given := s.value.get("kind")
	if given {
		at2 = joined(path, "kind")
		l.keys[at2] = e.at
		if e.value.kind != scalarNode {
			l.add(e.at, at2, WrongType, "%s found, the name of a stage kind wanted", e.value.found())
			return Kind{}, false
		}
		name, at = e.value.text, e.value.at
	}
	k, ok := l.reg.Lookup(name)
	if !ok && given {
		l.add(at, at2, UnknownKind, "no stage kind is called %q%s", clip(name), didYouMean(name, l.reg.Names()))
	} else if !ok {
		l.add(at, at2, UnknownKind, "no stage kind is called %q, and the key kind is not given%s", clip(name), didYouMean(name, l.reg.Names()))
	}
	return k, ok
}

// lintData asks package datasets about each entry that was read without findings.
func (l *loader) lintData(root *node) {
	data, _ := root.get("data")
	if data.value == nil {
		return
	}
	set := l.cfg.set()
	for _, e := range data.value.entries {
		path := joined("data", e.key)
		if !stageName.MatchString(e.key) {
			l.add(e.at, path, NotAllowed, "%q cannot be the name of a data set: letters, digits, dashes and underscores are wanted", clip(e.key))
			continue
		}
		if _, ok := l.cfg.Data[e.key]; !ok || l.has(path) {
			continue
		}
		for _, p := range set.Lint(e.key) {
			at := path
			if p.Key != "" {
				at = joined(path, p.Key)
			}
			l.add(l.placeOf(at), at, Problem, "%s", p.Message)
		}
	}
}

// has says whether there is a finding at or below a path.
func (l *loader) has(path string) bool {
	for _, f := range l.all {
		if f.Path == path || len(f.Path) > len(path) && f.Path[:len(path)] == path && (f.Path[len(path)] == '.' || f.Path[len(path)] == '[') {
			return true
		}
	}
	return false
}

func (c *Config) set() *datasets.Set { return datasets.NewSet(c.Data, c.Seed, c.Dir) }
