package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/outputs"
)

// grace is how long a stage may take to return after its context is done, before it is given up.
const grace = 1500 * time.Millisecond

const successName = "_SUCCESS"

// Result is what a run did.
type Result struct {
	RunDir string
	Ran    []string
	Reused []string
	Left   []string // not up to date, and left out by Options.Only
	Record *RunRecord
}

// UpToDate says that there was nothing to do.
func (r *Result) UpToDate() bool { return len(r.Ran) == 0 && len(r.Left) == 0 }

// runner is one run, which holds the lock of its directory.
type runner struct {
	*engine
	record  *RunRecord
	earlier *RunRecord
	result  *Result
	begun   time.Time
	cpu     time.Duration
	peak    int64
	gaveUp  bool // a stage still runs though it was told to stop
}

// Run brings every stage of the configuration up to date. Stages whose results hold are reused; the others run in order,
// each into a temporary directory that takes its final name when complete. The first failure ends the run, and so does
// ctx; finished stages stay. The Result is not nil once the run directory is locked, also with an error.
func Run(ctx context.Context, cfg *Config, opts Options) (*Result, error) {
	begun, cpu := time.Now(), cpuTime()
	unlock, err := lockRun(cfg.RunDir())
	if err != nil {
		return nil, err
	}
	defer unlock()
	for _, s := range cfg.Stages {
		if err := checkPlace(filepath.Join(cfg.RunDir(), s.Name)); err != nil {
			return nil, err
		}
	}
	e, err := newEngine(cfg, opts)
	if err != nil {
		return nil, err
	}
	r := &runner{engine: e, begun: begun, cpu: cpu, result: &Result{RunDir: e.runDir}}
	defer r.end()
	return r.result, r.run(ctx)
}

// checkPlace makes sure before any work that a stage's results can have their final name.
func checkPlace(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return fault.New(fault.Internal, dir, "a file is in the place of a stage's directory").Do("move it away")
	}
	return outputs.Recover(dir)
}

// end closes what the run has opened.
func (r *runner) end() {
	if err := r.hash.save(); err != nil {
		r.log.Warn("the cache of file hashes could not be written", "error", err)
	}
	if !r.gaveUp {
		r.close() // a stage that still computes would crash on a closed runtime
	}
}

func (r *runner) run(ctx context.Context) error {
	plan, decisions, err := r.plan(ctx)
	if err != nil {
		return err
	}
	if len(plan.Orphans) > 0 {
		r.log.Warn("the run directory has results of stages that are not in the configuration", "stages", plan.Orphans)
	}
	r.earlier, _ = ReadRecord(r.runDir) // only times come from it
	r.record = r.newRecord()
	r.result.Record = r.record
	if !plan.UpToDate() || plan.count(Leave) > 0 {
		if err := os.Remove(filepath.Join(r.runDir, successName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unwritable(r.runDir, err)
		}
	}
	for i, d := range decisions {
		if d.step.Action == Reuse {
			r.record.Stages[i].fill(d.have)
			r.record.Stages[i].carry(r.earlier)
			r.record.Stages[i].State = StateReused
		}
	}
	if !plan.UpToDate() {
		if err := r.record.write(r.runDir); err != nil {
			return unwritable(r.runDir, err)
		}
	}
	if !plan.UpToDate() {
		if err := errors.Join(r.cfg.checkData(r.set)...); err != nil {
			return r.finish(err)
		}
	}
	for i, d := range decisions {
		if err := r.stage(ctx, i, d); err != nil {
			return r.finish(err)
		}
	}
	return r.finish(nil)
}

// stage brings one stage up to date. d is what the plan says; stages above may have run since.
func (r *runner) stage(ctx context.Context, i int, d decision) error {
	s, rec := r.cfg.Stages[i], r.record.Stages[i]
	event := StageEvent{Name: s.Name, Kind: s.Kind.Name, Index: i + 1, Total: len(r.cfg.Stages)}
	if err := ctx.Err(); err != nil {
		return stopped(s.Name, err)
	}
	if d.step.Action == Leave {
		rec.State, rec.Why = StateLeft, d.step.Why
		r.result.Left = append(r.result.Left, s.Name)
		return nil
	}
	if d.step.Action == Execute {
		expected := d.step.Why
		var err error
		if d, err = r.decide(ctx, s); err != nil {
			return fmt.Errorf("stage %s: %w", s.Name, err)
		}
		if d.step.Action == Execute && len(expected) > 0 {
			d.step.Why = expected // "upstream train runs" tells more than "results of train changed"
		}
	}
	if d.step.Action == Reuse {
		rec.fill(d.have)
		rec.carry(r.earlier)
		rec.State = StateReused
		r.held[s.Name] = d.have
		r.dropScratch(s.Name, d.have.Fingerprint)
		r.result.Reused = append(r.result.Reused, s.Name)
		event.Rows = d.have.Rows()
		r.watch.StageReused(event)
		return nil
	}
	rec.State, rec.Why, rec.Fingerprint, rec.Inputs = StatusRunning, d.step.Why, d.step.Fingerprint, d.inputs.hashes()
	event.Why = d.step.Why
	r.watch.StageStarted(event)
	m, err := r.execute(ctx, s, d, rec)
	event.Wall = time.Duration(*rec.WallSeconds * float64(time.Second))
	if err != nil {
		event.Err = err
		r.watch.StageFailed(event)
		return err
	}
	r.held[s.Name] = m
	r.result.Ran = append(r.result.Ran, s.Name)
	rec.fill(m)
	rec.State = StateRan
	event.Rows = m.Rows()
	r.watch.StageDone(event)
	if err := r.hash.save(); err != nil {
		r.log.Warn("the cache of file hashes could not be written", "error", err)
	}
	if err := r.record.write(r.runDir); err != nil {
		return unwritable(r.runDir, err)
	}
	return nil
}

// execute runs a stage into a temporary directory and commits that.
func (r *runner) execute(ctx context.Context, s *StageConfig, d decision, rec *StageRecord) (m *Manifest, err error) {
	started, cpu := time.Now(), cpuTime()
	r.peak = max(r.peak, peakRSS())
	resetPeakRSS()
	defer func() {
		wall, used, peak := time.Since(started).Seconds(), (cpuTime() - cpu).Seconds(), peakRSS()
		at := started.UTC()
		rec.Started, rec.WallSeconds, rec.CPUSeconds, rec.PeakRSS = &at, &wall, &used, &peak
		r.peak = max(r.peak, peak)
		if err != nil {
			rec.State, rec.Error = StatusFailed, err.Error()
			if errors.Is(err, context.Canceled) {
				rec.State = StatusCancelled
			}
		}
	}()
	dir, err := outputs.Begin(r.dir(s.Name))
	if err != nil {
		return nil, err
	}
	defer dir.Abort()
	config := canonicalJSON(s.Config)
	rc := &RunContext{
		Name: s.Name, Kind: s.Kind.Name, Seed: r.cfg.Seed, Log: r.log.With("stage", s.Name), Dir: dir, Data: r.set,
		Runtime: r.runtime, ToolVersion: r.opts.ToolVersion, ConfigHash: hashOf(config), Fingerprint: d.step.Fingerprint,
		ConfigText: slices.Clone(r.cfg.Text), RunDir: r.runDir, run: r, inputs: d.inputs,
	}
	err = r.call(ctx, s, rc)
	reported := rc.close()
	rec.Measures, rec.Details = rc.measures, rc.details
	switch {
	case ctx.Err() != nil:
		return nil, stopped(s.Name, ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("stage %s: %w", s.Name, err)
	case reported != nil:
		return nil, fmt.Errorf("stage %s: %w", s.Name, reported)
	}
	return r.commit(ctx, s, d, rc)
}

// call runs the stage's code. It turns a panic into an error, and comes back soon after ctx is done even where the stage
// does not.
func (r *runner) call(ctx context.Context, s *StageConfig, rc *RunContext) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				r.log.Debug("panic in stage", "stage", s.Name, "panic", p, "stack", string(debug.Stack()))
				done <- fault.New(fault.Internal, "", "panic: %v", p).Do("this is an error of the program: run with --log-level debug for the stack and report it")
			}
		}()
		done <- s.Config.Run(ctx, rc)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
		r.gaveUp = true
		r.log.Warn("the stage does not stop; leaving it behind", "stage", s.Name)
		return ctx.Err()
	}
}

// commit records what the stage wrote, checks that its inputs are still the same, and gives it its final name.
func (r *runner) commit(ctx context.Context, s *StageConfig, d decision, rc *RunContext) (*Manifest, error) {
	for _, paths := range d.files {
		for _, path := range paths {
			if _, err := r.inputHash(ctx, path, "stage "+s.Name); err != nil {
				return nil, fmt.Errorf("stage %s: %w", s.Name, err)
			}
		}
	}
	files, err := hashTree(ctx, rc.Dir.Path())
	if ctx.Err() != nil {
		return nil, stopped(s.Name, ctx.Err())
	}
	if err != nil {
		return nil, fault.New(fault.Internal, "stage "+s.Name, "its results cannot be read back").Because(err)
	}
	m := &Manifest{
		Schema: manifestSchema, Stage: s.Name, Kind: s.Kind.Name, Fingerprint: d.step.Fingerprint,
		Outputs: map[string]Output{}, Details: rc.details, Inputs: d.inputs,
	}
	for path, h := range files {
		out := Output{Size: h.Size, SHA256: h.SHA256}
		if n, ok := rc.rows[path]; ok {
			out.Rows = &n
		}
		m.Outputs[path] = out
	}
	for path := range rc.rows {
		if _, ok := files[path]; !ok {
			return nil, fault.New(fault.Internal, "stage "+s.Name, "rows reported for %s, which was not written", path)
		}
	}
	m.OutputHash = outputHash(m.Outputs)
	if err := m.write(rc.Dir.Path(manifestName)); err != nil {
		return nil, unwritable(r.runDir, err)
	}
	if err := rc.Dir.Commit(); err != nil {
		return nil, err
	}
	r.dropScratch(s.Name, m.Fingerprint)
	for path, h := range files {
		r.hash.put(filepath.Join(s.Name, filepath.FromSlash(path)), h)
	}
	return m, nil
}

// hashTree hashes every file below a directory, by path with slashes.
func hashTree(ctx context.Context, dir string) (map[string]hashed, error) {
	files := map[string]hashed{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("%s is not a plain file", rel)
		}
		h, err := hashFile(ctx, path)
		files[filepath.ToSlash(rel)] = h
		return err
	})
	return files, err
}

func stopped(stage string, err error) error {
	return fault.New(fault.Internal, "", "stopped at stage %s", stage).Because(err).Do("run again to continue there")
}

// finish writes run.json for the last time, and _SUCCESS where everything is done.
func (r *runner) finish(err error) error {
	rec := r.record
	now := time.Now().UTC()
	rec.Finished, rec.WallSeconds, rec.CPUSeconds = &now, time.Since(r.begun).Seconds(), (cpuTime() - r.cpu).Seconds()
	rec.PeakRSS = max(r.peak, peakRSS())
	switch {
	case err == nil && len(r.result.Left) == 0:
		rec.Status = StatusDone
	case err == nil:
		rec.Status = StatusPartial
	case errors.Is(err, context.Canceled):
		rec.Status, rec.Error = StatusCancelled, err.Error()
	default:
		rec.Status, rec.Error = StatusFailed, err.Error()
	}
	if werr := rec.write(r.runDir); werr != nil {
		return errors.Join(err, unwritable(r.runDir, werr))
	}
	if rec.Status != StatusDone {
		return err
	}
	success := filepath.Join(r.runDir, successName)
	if _, serr := os.Stat(success); serr == nil {
		return nil
	}
	if werr := outputs.WriteFileAtomic(success, nil); werr != nil {
		return unwritable(r.runDir, werr)
	}
	return nil
}
