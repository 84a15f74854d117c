package pipeline

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
)

// Kind is a stage kind: a name that stages in pipeline.yaml may have, its configuration and its code.
type Kind struct {
	Name    string
	Summary string // one or two sentences for docs/pipeline.md
	Version int    // code version, part of the fingerprint: raised when the same configuration gives other results

	// New makes the configuration of one stage: a pointer to a struct with every default filled in. Its exported fields
	// carry the tags that schema.go describes.
	New func() Stage

	// ReadsConfigText says that the stage uses RunContext.ConfigText. The text of pipeline.yaml, comments included, is
	// then part of its fingerprint.
	ReadsConfigText bool
}

// Stage is the configuration of one stage and what it does.
type Stage interface {
	// Lint checks what types, bounds and references do not say. It runs after the whole file was read without
	// findings in this stage, touches no file, and reports with lc.Problem.
	Lint(lc *LintContext)
	// Run writes the stage's results into rc.Dir. It returns soon after ctx is done.
	Run(ctx context.Context, rc *RunContext) error
}

// DataRef is the name of an entry under data:. A field of this type makes the stage depend on that entry's rows.
type DataRef string

// StageRef is the name of a stage. A field of this type makes the stage run after that one and depend on its results.
type StageRef string

// FileRef is a file that a stage reads itself, relative to the folder of pipeline.yaml. Its content is part of the
// fingerprint.
type FileRef string

// Registry is the set of stage kinds that a configuration may use.
type Registry struct {
	kinds map[string]Kind
	errs  []string
}

// NewRegistry makes a registry. A kind that cannot be used (no name, a name given twice, a configuration that is not a
// pointer to a struct, a struct tag that means nothing) is reported by Err and by every Load.
func NewRegistry(kinds ...Kind) *Registry {
	r := &Registry{kinds: map[string]Kind{}}
	for _, k := range kinds {
		if _, twice := r.kinds[k.Name]; twice {
			r.errs = append(r.errs, fmt.Sprintf("stage kind %s is registered twice", k.Name))
		}
		if err := k.check(); err != nil {
			r.errs = append(r.errs, fmt.Sprintf("stage kind %q: %v", k.Name, err))
		}
		r.kinds[k.Name] = k
	}
	return r
}

func (k Kind) check() error {
	if !stageName.MatchString(k.Name) {
		return fmt.Errorf("the name must match %s", stageName)
	}
	if k.New == nil {
		return fmt.Errorf("New is nil")
	}
	t := reflect.TypeOf(k.New())
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("New gives %v, want a pointer to a struct", t)
	}
	s, err := schemaOf(t.Elem())
	if err != nil {
		return err
	}
	if s.field("kind") != nil {
		return fmt.Errorf("the key kind is taken: it names the stage's kind")
	}
	return s.checkDefaults(reflect.ValueOf(k.New()).Elem())
}

// checkDefaults compares documented defaults with those that New gives.
func (s *schema) checkDefaults(v reflect.Value) error {
	for i := range s.fields {
		f := &s.fields[i]
		fv := v.FieldByIndex(f.index)
		if f.typ.Kind() == reflect.Struct {
			if err := mustSchema(f.typ).checkDefaults(fv); err != nil {
				return err
			}
		}
		if f.def == "" || isRef(f.typ) || fv.IsZero() || !isScalar(f.typ.Kind()) {
			continue
		}
		said := reflect.New(f.typ).Elem()
		if _, msg := setScalar(&node{kind: scalarNode, text: f.def}, said); msg == "" && !said.Equal(fv) {
			return fmt.Errorf("key %s: the tag says default %s, New gives %v", f.name, f.def, fv)
		}
	}
	return nil
}

func isScalar(k reflect.Kind) bool {
	return k != reflect.Struct && k != reflect.Slice && k != reflect.Map && k != reflect.Pointer
}

// Err says what is wrong with the registered kinds; nil where nothing is.
func (r *Registry) Err() error {
	if len(r.errs) == 0 {
		return nil
	}
	return fault.New(fault.Internal, "stage registry", "%s", strings.Join(r.errs, "; "))
}

// Lookup finds a kind by name.
func (r *Registry) Lookup(name string) (Kind, bool) {
	k, ok := r.kinds[name]
	return k, ok
}

// Names lists the kinds in alphabetical order.
func (r *Registry) Names() []string {
	names := make([]string, 0, len(r.kinds))
	for name := range r.kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
