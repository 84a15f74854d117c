package datasets

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/jempipe/jempipe/internal/fault"
)

// Set is all data sets of a config. It is safe for concurrent use.
type Set struct {
	specs map[string]Spec
	seed  uint64
	base  string
	mem   memory.Allocator

	lock sync.Mutex
	open map[string]*dataset
}

// NewSet makes a Set of entries by name. The seed decides derived sets; relative paths start at baseDir.
func NewSet(specs map[string]Spec, seed uint64, baseDir string) *Set {
	return &Set{specs: maps.Clone(specs), seed: seed, base: baseDir, mem: memory.DefaultAllocator, open: map[string]*dataset{}}
}

func (s *Set) names() []string { return slices.Sorted(maps.Keys(s.specs)) }

// Get opens an entry: it reads headers and schema, and counts rows, but reads no rows beyond the first. The result is
// kept. Errors in the config are fault.Config errors; errors in the data are fault.Data errors.
func (s *Set) Get(name string) (Dataset, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	d, err := s.get(name)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (s *Set) get(name string) (*dataset, error) {
	if d, ok := s.open[name]; ok {
		return d, nil
	}
	if found := s.Lint(name); len(found) > 0 {
		where := "data"
		if _, ok := s.specs[name]; ok {
			where = strings.TrimSuffix("data."+name+"."+found[0].Key, ".")
		}
		return nil, fault.New(fault.Config, where, "%s", found[0].Message)
	}
	spec, d, err := resolved(s.specs[name]), (*dataset)(nil), error(nil)
	if spec.Derive != "" {
		d, err = s.derive(name, spec)
	} else {
		d, err = s.read(name, spec)
	}
	if err != nil {
		return nil, err
	}
	s.open[name] = d
	return d, nil
}

// read opens an entry that has a source.
func (s *Set) read(name string, spec Spec) (*dataset, error) {
	src, _ := findSource(spec.Source) // Lint has found it
	classes := classNames(spec)
	got, err := src.open(spec, site{name: name, resolve: s.path, classes: len(classes)})
	if err != nil {
		return nil, err
	}
	info := Info{
		Name: name, Shape: got.shape, Labelled: got.labelled, Float: got.float, StringID: got.stringID, Classes: got.classes,
	}
	if len(classes) > 0 {
		info.Classes = classes
	}
	span := got.span
	if len(spec.Range) == 2 {
		span = spec.Range
	}
	if len(span) == 2 {
		info.Lo, info.Hi = span[0], span[1]
	}
	d := &dataset{info: info, files: got.files, keep: spec.BadRows == "keep", mem: s.mem, start: got.start}
	return d, d.cut(spec, got.rows)
}

// cut applies skip and limit to a stream of total rows.
func (d *dataset) cut(spec Spec, total int64) error {
	where := "data set " + d.info.Name
	if len(d.files) > 0 {
		where = d.files[0]
	}
	rows := total - spec.Skip
	switch {
	case total == 0:
		return fault.New(fault.Data, where, "no rows, wanted at least 1").Do("point the entry to a file with rows")
	case rows <= 0:
		return fault.New(fault.Data, where, "skip leaves out all of its %d rows", total).Do("set data.%s.skip below %d", d.info.Name, total)
	case spec.Limit > 0:
		rows = min(rows, spec.Limit)
	}
	d.total, d.first, d.info.Rows = total, spec.Skip, rows
	return nil
}

// path makes a path of the config relative to the working directory.
func (s *Set) path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(s.base, p)
}

// resolved fills in the defaults that are not "whatever is there".
func resolved(spec Spec) Spec {
	if spec.Split == "" {
		spec.Split = "all"
	}
	if spec.BadRows == "" {
		spec.BadRows = "fail"
	}
	if spec.X == "" {
		spec.X = "x"
	}
	if spec.Std == 0 {
		spec.Std = 1
	}
	if spec.Weight == 0 {
		spec.Weight = 0.5
	}
	return spec
}

// pathKeys are left out of an identity: the caller hashes what the files hold, and moving them changes no row.
var pathKeys = []string{"images", "labels", "path"}

// Identity is a canonical text of everything but the content of files that decides the rows of an entry: its resolved
// keys, those of the sets it is derived from, the seed and its own name where numbers are drawn (both name the random
// streams), and the version of built-in data. It is "" for an unknown entry. Equal identities and equal files in equal
// order give equal rows.
func (s *Set) Identity(name string) string {
	spec, ok := s.specs[name]
	if !ok || s.circular(name) {
		return ""
	}
	var b strings.Builder
	b.WriteString("datasets/1\n")
	given := resolved(spec)
	for f := range fields(given) {
		if f.value.IsZero() {
			continue
		}
		if slices.Contains(pathKeys, f.key) {
			fmt.Fprintf(&b, "%s: given\n", f.key)
		} else if f.key != "of" {
			fmt.Fprintf(&b, "%s: %#v\n", f.key, f.value.Interface())
		}
	}
	if src, ok := findSource(spec.Source); ok && src.data != "" {
		fmt.Fprintf(&b, "data: %s\n", src.data)
	}
	if spec.Derive != "" {
		if d, ok := findDerivation(spec.Derive); ok && d.draws {
			fmt.Fprintf(&b, "seed: %d\nname: %q\n", s.seed, name)
		}
		b.WriteString("of:\n\t" + strings.ReplaceAll(strings.TrimSpace(s.Identity(spec.Of)), "\n", "\n\t") + "\n")
	}
	return b.String()
}
