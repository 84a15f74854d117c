package pipeline

import (
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/jempipe/jempipe/internal/fault"
)

// Check looks at what the configuration points to. Load has checked the file itself, so without deep there is nothing
// left to find. With deep every data set is opened (headers, schema, counts) and every file that a stage reads must be
// there. All errors come at once, joined.
func (c *Config) Check(deep bool) error {
	if !deep {
		return nil
	}
	var errs []error
	set := c.set()
	for _, name := range slices.Sorted(maps.Keys(c.Data)) {
		data, err := set.Get(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, path := range data.Files() {
			errs = append(errs, readable(path, "data."+name))
		}
	}
	for _, s := range c.Stages {
		for _, r := range s.refs {
			if r.typ == fileRefType {
				errs = append(errs, readable(c.path(r.name), "stages."+s.Name+"."+r.path))
			}
		}
	}
	return errors.Join(errs...)
}

func readable(path, by string) error {
	f, err := os.Open(path)
	if err != nil {
		return fault.New(fault.Data, path, "the file named by %s cannot be read", by).Because(cause(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return fault.New(fault.Data, path, "%s names a folder, a file is wanted", by)
	}
	return nil
}
