package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/outputs"
)

// RunContext is what a running stage works with. Its methods may be called from several goroutines.
type RunContext struct {
	Name string // the stage's name; random streams are keyed by it
	Kind string
	Seed uint64 // the run's seed
	Log  *slog.Logger
	Dir  *outputs.Dir // results are written below Dir.Path(); it is committed when Run returns without error
	Data *datasets.Set

	// Runtime gives the run's ONNX Runtime, opened when a stage first asks. Stages do not close it.
	Runtime func() (*ort.Runtime, error)

	ToolVersion string
	ConfigHash  string // SHA-256 of this stage's resolved configuration: equal for equal settings, whatever else the file says
	Fingerprint string
	ConfigText  []byte // pipeline.yaml; a kind that uses it sets ReadsConfigText
	RunDir      string

	run    *runner
	inputs Inputs

	lock     sync.Mutex
	closed   bool // the stage was given up: what it still reports is dropped
	details  map[string]json.RawMessage
	measures map[string]json.RawMessage
	rows     map[string]int64
	err      error // the first report that could not be taken
	pace     pace
}

// StageDir is the directory of the results of a stage that this one refers to.
func (rc *RunContext) StageDir(ref StageRef) string { return filepath.Join(rc.RunDir, string(ref)) }

// Scratch is a directory for what a stage of long duration keeps for its next run, should this one be stopped: it
// outlives the process, belongs to this fingerprint alone, and is removed when the stage's results are committed.
func (rc *RunContext) Scratch() (string, error) {
	all, dir := rc.run.scratch(rc.Name, rc.Fingerprint)
	entries, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", unwritable(all, err)
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(dir) {
			if err := os.RemoveAll(filepath.Join(all, e.Name())); err != nil {
				return "", unwritable(all, err)
			}
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", unwritable(dir, err)
	}
	return dir, nil
}

// scratch is the directory of a stage's scratch directories, and in it that of a fingerprint.
func (r *runner) scratch(stage, fingerprint string) (all, dir string) {
	all = filepath.Join(r.runDir, "."+stage+".work")
	return all, filepath.Join(all, fingerprint[:min(len(fingerprint), 16)])
}

// dropScratch removes what a stage kept for a run that is now complete: its own, or one that was killed just after its
// results were committed.
func (r *runner) dropScratch(stage, fingerprint string) {
	all, dir := r.scratch(stage, fingerprint)
	if err := os.RemoveAll(dir); err != nil {
		r.log.Warn("a directory that is no longer needed could not be removed", "error", err)
	}
	_ = os.Remove(all) // unless another configuration has something there
}

// StageHash stands for all results of a stage that this one refers to; "" for any other.
func (rc *RunContext) StageHash(ref StageRef) string { return rc.inputs.Stages[string(ref)] }

// DataHash stands for the rows of a data set that this stage refers to; "" for any other.
func (rc *RunContext) DataHash(ref DataRef) string {
	if d, ok := rc.inputs.Data[string(ref)]; ok {
		return d.hash()
	}
	return ""
}

// FileHash is the SHA-256 of a file that this stage refers to; "" for any other.
func (rc *RunContext) FileHash(ref FileRef) string { return rc.inputs.Files[string(ref)] }

// InputHashes gives a hash for each input of this stage, named data.NAME, stages.NAME and files.PATH.
func (rc *RunContext) InputHashes() map[string]string { return rc.inputs.hashes() }

// File is the absolute path of a file reference.
func (rc *RunContext) File(ref FileRef) string { return rc.run.cfg.path(string(ref)) }

// Detail reports a value for _stage.json and run.json. It must follow from the stage's inputs alone: no times, no hosts.
// A value that JSON cannot hold, such as NaN, fails the stage.
func (rc *RunContext) Detail(key string, value any) { rc.report(&rc.details, key, value) }

// Measure reports a value for run.json only: a time, a throughput, a size of memory.
func (rc *RunContext) Measure(key string, value any) { rc.report(&rc.measures, key, value) }

func (rc *RunContext) report(to *map[string]json.RawMessage, key string, value any) {
	text, err := json.Marshal(value)
	rc.lock.Lock()
	defer rc.lock.Unlock()
	if rc.closed {
		return
	}
	if err != nil {
		if rc.err == nil {
			rc.err = fault.New(fault.Internal, "", "the report %q cannot be written as JSON", key).Because(err)
		}
		return
	}
	if *to == nil {
		*to = map[string]json.RawMessage{}
	}
	(*to)[key] = text
}

// Rows says how many rows a result file has. The path is absolute, or relative to Dir.
func (rc *RunContext) Rows(path string, n int64) {
	if filepath.IsAbs(path) {
		if rel, err := filepath.Rel(rc.Dir.Path(), path); err == nil {
			path = rel
		}
	}
	rc.lock.Lock()
	defer rc.lock.Unlock()
	if rc.closed {
		return
	}
	if rc.rows == nil {
		rc.rows = map[string]int64{}
	}
	rc.rows[filepath.ToSlash(filepath.Clean(path))] = n
}

// progressEvery bounds how often observers hear of progress.
const progressEvery = 100 * time.Millisecond

// Progress tells how far the stage is; total 0 is not known. It may be called for every row.
func (rc *RunContext) Progress(done, total int64, format string, args ...any) {
	rc.progress(ProgressEvent{Done: done, Total: total}, func(e *ProgressEvent) {
		e.Text = format
		if len(args) > 0 {
			e.Text = fmt.Sprintf(format, args...)
		}
	})
}

// Steps tells how far a stage is that works in steps, and how they go. It may be called for every step. Figures that
// are no finite number are left out.
func (rc *RunContext) Steps(done, total int64, figures ...Figure) {
	rc.progress(ProgressEvent{Done: done, Total: total, Unit: "steps"}, func(e *ProgressEvent) {
		e.Figures = slices.DeleteFunc(slices.Clone(figures), func(f Figure) bool { return math.IsNaN(f.Value) || math.IsInf(f.Value, 0) })
	})
}

// progress passes an event on, unless another one has just been; only then it is filled.
func (rc *RunContext) progress(e ProgressEvent, fill func(*ProgressEvent)) {
	rc.lock.Lock()
	defer rc.lock.Unlock()
	now := time.Now()
	rc.pace.see(e.Done, e.Total, now)
	if rc.closed || now.Sub(rc.pace.told) < progressEvery && (e.Total == 0 || e.Done < e.Total) {
		return
	}
	rc.pace.told = now
	e.Name, e.Kind = rc.Name, rc.Kind
	e.PerSecond, e.Left = rc.pace.rate(now)
	fill(&e)
	rc.run.watch.StageProgress(e)
}

// pace measures how fast work goes on.
type pace struct {
	began       time.Time
	first       int64 // done when it began
	done, total int64
	told        time.Time // when observers last heard of it
}

// see takes the work done. Measuring begins anew with other work and where the work went back.
func (p *pace) see(done, total int64, now time.Time) {
	if p.began.IsZero() || done < p.done || total != p.total {
		p.began, p.first = now, done
	}
	p.done, p.total = done, total
}

// rate is the work done a second, and the time that what is left takes at this rate; zeros where not known.
func (p *pace) rate(now time.Time) (perSecond float64, left time.Duration) {
	seconds := now.Sub(p.began).Seconds()
	if seconds <= 0 || p.done == p.first {
		return 0, 0
	}
	perSecond = float64(p.done-p.first) / seconds
	if p.total > p.done {
		left = time.Duration(float64(p.total-p.done) / perSecond * float64(time.Second))
	}
	return perSecond, left
}

// StageInfo is a finished stage as another one sees it.
type StageInfo struct {
	Manifest *Manifest
	Record   StageRecord // times included: results that must be the same on every run do not use them
	Dir      string
}

// StageInfo describes a stage that this one depends on, directly or through others; false for any other.
func (rc *RunContext) StageInfo(ref StageRef) (StageInfo, bool) {
	for _, info := range rc.Manifests() {
		if info.Manifest.Stage == string(ref) {
			return info, true
		}
	}
	return StageInfo{}, false
}

// StageConfig is the configuration of a stage that this one depends on, directly or through others; nil for any other.
func (rc *RunContext) StageConfig(ref StageRef) Stage {
	if !rc.above()[string(ref)] {
		return nil
	}
	return rc.run.cfg.Stage(string(ref)).Config
}

// above is the set of stages that this one depends on, directly or through others.
func (rc *RunContext) above() map[string]bool {
	found := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		for _, need := range rc.run.cfg.Stage(name).Needs() {
			if !found[need] {
				found[need] = true
				add(need)
			}
		}
	}
	add(rc.Name)
	return found
}

// Manifests describes every stage that this one depends on, directly or through others, in the order in which they ran.
func (rc *RunContext) Manifests() []StageInfo {
	cfg, above := rc.run.cfg, rc.above()
	record := rc.RunRecord()
	var out []StageInfo
	for i, s := range cfg.Stages {
		if m := rc.run.held[s.Name]; above[s.Name] && m != nil {
			out = append(out, StageInfo{m, *record.Stages[i], rc.StageDir(StageRef(s.Name))})
		}
	}
	return out
}

// RunRecord is run.json as it stands while this stage runs.
func (rc *RunContext) RunRecord() RunRecord { return rc.run.record.clone() }

// close ends reporting and gives what was reported.
func (rc *RunContext) close() error {
	rc.lock.Lock()
	defer rc.lock.Unlock()
	rc.closed = true
	for path := range rc.rows {
		if !filepath.IsLocal(filepath.FromSlash(path)) {
			return fault.New(fault.Internal, "", "rows reported for %s, which is not in the stage's directory", strings.TrimSpace(path))
		}
	}
	return rc.err
}
