package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
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
