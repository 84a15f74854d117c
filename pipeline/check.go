package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// DataChecker is a Stage that can find mistakes as soon as the headers of its data sets are known, before any stage
// runs: shapes, classes and labels that do not fit.
type DataChecker interface {
	CheckData(dc *DataContext) []error
}

// DataContext is what a DataChecker sees.
type DataContext struct {
	cfg   *Config
	set   *datasets.Set
	stage *StageConfig
}

// Name is the stage's name.
func (dc *DataContext) Name() string { return dc.stage.Name }

// Data describes a data set; false where there is none or where it cannot be opened, which is reported elsewhere.
func (dc *DataContext) Data(ref DataRef) (datasets.Info, bool) {
	if ref == "" {
		return datasets.Info{}, false
	}
	d, err := dc.set.Get(string(ref))
	if err != nil {
		return datasets.Info{}, false
	}
	return d.Info(), true
}

// Stage is the configuration of a stage; nil where there is none.
func (dc *DataContext) Stage(ref StageRef) Stage {
	if s := dc.cfg.Stage(string(ref)); s != nil {
		return s.Config
	}
	return nil
}

// FileLister is a Stage whose files point to further ones, such as the weights beside a model. Their content is part of
// the fingerprint too.
type FileLister interface {
	// MoreFiles lists them; path makes the path of a file that the configuration names. Files that cannot be read are no
	// error: they are reported elsewhere.
	MoreFiles(path func(FileRef) string) ([]string, error)
}

// Trial is a Stage that can try out, before anything runs, whether it can work with the files that it names.
type Trial interface {
	// Try gives notes for a person: what was found and measured.
	Try(ctx context.Context, tc *TrialContext) (notes []string, err error)
}

// TrialContext is what a Trial works with.
type TrialContext struct {
	DataContext
	runtime func() (*ort.Runtime, error)
}

// Open gives a data set, to read its first rows.
func (tc *TrialContext) Open(ref DataRef) (datasets.Dataset, error) { return tc.set.Get(string(ref)) }

// File is the path of a file that the configuration names.
func (tc *TrialContext) File(ref FileRef) string { return tc.cfg.path(string(ref)) }

// Seed is that of the run.
func (tc *TrialContext) Seed() uint64 { return tc.cfg.Seed }

// Runtime is ONNX Runtime as the configuration wants it. It stays open until all trials are done.
func (tc *TrialContext) Runtime() (*ort.Runtime, error) { return tc.runtime() }

// Try runs the trials of all stages of a configuration that Check has found sound. Notes carry the name of their stage.
func (c *Config) Try(ctx context.Context, log *slog.Logger) (notes []string, err error) {
	var rt *ort.Runtime
	defer func() {
		if rt != nil {
			err = errors.Join(err, rt.Close())
		}
	}()
	open := func() (*ort.Runtime, error) {
		var err error
		if rt == nil {
			rt, err = ort.Open(c.Runtime, log)
		}
		return rt, err
	}
	set := c.set()
	var errs []error
	for _, s := range c.Stages {
		t, ok := s.Config.(Trial)
		if !ok {
			continue
		}
		found, err := t.Try(ctx, &TrialContext{DataContext{c, set, s}, open})
		for _, note := range found {
			notes = append(notes, s.Name+": "+note)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("stages.%s: %w", s.Name, err))
		}
	}
	return notes, errors.Join(errs...)
}

// checkData runs the data checks of all stages.
func (c *Config) checkData(set *datasets.Set) (errs []error) {
	for _, s := range c.Stages {
		if checker, ok := s.Config.(DataChecker); ok {
			errs = append(errs, checker.CheckData(&DataContext{c, set, s})...)
		}
	}
	return errs
}

// Check looks at what a loaded configuration points to: every data set is opened (headers, schema, counts) and must fit
// the stages that read it, and every file that a stage reads must be there. All errors come at once, joined.
func (c *Config) Check() error {
	var errs []error
	set := c.set()
	users := map[string][]string{} // data sets by error, since several may share a file
	var order []error
	for _, name := range slices.Sorted(maps.Keys(c.Data)) {
		data, err := set.Get(name)
		found := []error{err}
		if err == nil {
			found = nil
			for _, path := range data.Files() {
				found = append(found, readable(path))
			}
		}
		for _, err := range found {
			if err == nil {
				continue
			}
			if users[err.Error()] == nil {
				order = append(order, err)
			}
			users[err.Error()] = append(users[err.Error()], "data."+name)
		}
	}
	for _, err := range order {
		errs = append(errs, fmt.Errorf("%s: %w", strings.Join(users[err.Error()], ", "), err))
	}
	for _, s := range c.Stages {
		for _, r := range s.refs {
			if r.typ == fileRefType {
				if err := readable(c.path(r.name)); err != nil {
					errs = append(errs, fmt.Errorf("stages.%s.%s: %w", s.Name, r.path, err))
				}
			}
		}
	}
	return errors.Join(append(errs, c.checkData(set)...)...)
}

func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fault.New(fault.Data, path, "cannot be read").Because(cause(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return fault.New(fault.Data, path, "a folder found, a file is wanted")
	}
	return nil
}
