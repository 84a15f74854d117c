package pipeline

import (
	"reflect"
	"slices"
	"strings"
)

// ref is one reference of a stage: to a data set, another stage or a file.
type ref struct {
	typ   reflect.Type // dataRefType, stageRefType or fileRefType
	name  string
	path  string // key path within the stage
	kinds []string
}

// walkRefs calls fn for every reference field of a configuration struct, in field order. fn may change the value.
func walkRefs(v reflect.Value, path string, given func(path string) bool, fn func(f *field, v reflect.Value, path string, absent bool)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walkRefs(v.Elem(), path, given, fn)
		}
	case reflect.Struct:
		s := mustSchema(v.Type())
		for i := range s.fields {
			f := &s.fields[i]
			at := joined(path, f.name)
			fv := v.FieldByIndex(f.index)
			if isRef(f.typ) {
				absent := !given(at) && (f.unless == "" || !given(joined(path, f.unless)))
				fn(f, fv, at, absent)
				continue
			}
			walkRefs(fv, at, given, fn)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walkRefs(v.Index(i), indexed(path, i), given, fn)
		}
	case reflect.Map:
		// Values of a map cannot be set in place; references there are checked but not filled in.
		for _, k := range sortedKeys(v) {
			walkRefs(v.MapIndex(k), joined(path, k.String()), given, fn)
		}
	}
}

func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

func isRef(t reflect.Type) bool {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t == dataRefType || t == stageRefType || t == fileRefType
}

// references fills in default references and checks every reference of every stage.
func (l *loader) references() {
	for _, s := range l.cfg.Stages {
		if s.Config == nil {
			continue
		}
		base := joined("stages", s.Name)
		given := func(path string) bool {
			_, ok := l.values[joined(base, path)]
			return ok
		}
		before := len(l.all) + l.lost
		walkRefs(reflect.ValueOf(s.Config), "", given, func(f *field, v reflect.Value, path string, absent bool) {
			if absent && f.filled() {
				l.fill(s, f, v)
			}
			if absent && f.required && f.filled() && v.IsZero() {
				l.add(l.keyOf(base), joined(base, path), MissingKey, "the key is missing: %s wanted (%s, its default, is not in this file)", wanted(f.typ), f.def)
			}
			for _, r := range refsOf(f, v, path) {
				at := joined(base, r.path)
				if r.name != "" {
					s.refs = append(s.refs, r)
				} else if given(r.path) && !f.optional(r.typ) && !l.has(at) {
					l.add(l.placeOf(at), at, NotAllowed, "an empty text found, %s wanted", wanted(r.typ))
				}
			}
		})
		for _, r := range s.refs {
			l.checkRef(s, r, joined(base, r.path))
		}
		if len(l.all)+l.lost > before {
			l.broken[s.Name] = true
		}
	}
}

// fill gives an absent reference its default where that exists.
func (l *loader) fill(s *StageConfig, f *field, v reflect.Value) {
	if v.Kind() != reflect.Slice {
		for _, name := range list(f.def) { // the first that is there
			if l.exists(f, name) && (f.typ == dataRefType || name != s.Name) { // a stage does not refer to itself
				v.SetString(name)
				return
			}
		}
		return
	}
	var names []string
	switch {
	case f.def != "*":
		for _, name := range list(f.def) {
			if l.exists(f, name) && name != s.Name {
				names = append(names, name)
			}
		}
	case f.typ.Elem() == dataRefType:
		for name := range l.cfg.Data {
			names = append(names, name)
		}
		slices.Sort(names)
	default:
		for _, other := range l.cfg.Stages {
			fits := slices.Contains(f.kinds, other.Kind.Name) || len(f.kinds) == 0 && other.Kind.Name != s.Kind.Name
			if other != s && fits {
				names = append(names, other.Name)
			}
		}
	}
	out := reflect.MakeSlice(v.Type(), len(names), len(names))
	for i, name := range names {
		out.Index(i).SetString(name)
	}
	v.Set(out)
}

// exists says whether a name can be the value of a reference field.
func (l *loader) exists(f *field, name string) bool {
	t := f.typ
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t == dataRefType {
		_, ok := l.cfg.Data[name]
		return ok
	}
	s := l.cfg.Stage(name)
	return s != nil && (len(f.kinds) == 0 || slices.Contains(f.kinds, s.Kind.Name))
}

func refsOf(f *field, v reflect.Value, path string) []ref {
	if v.Kind() != reflect.Slice {
		return []ref{{v.Type(), v.String(), path, f.kinds}}
	}
	var out []ref
	for i := range v.Len() {
		out = append(out, ref{v.Type().Elem(), v.Index(i).String(), indexed(path, i), f.kinds})
	}
	return out
}

func (l *loader) checkRef(s *StageConfig, r ref, path string) {
	switch r.typ {
	case dataRefType:
		if _, ok := l.cfg.Data[r.name]; !ok {
			l.add(l.placeOf(path), path, UnknownReference, "no data set is called %q%s", clip(r.name), didYouMean(r.name, l.dataNames()))
		}
	case stageRefType:
		other := l.cfg.Stage(r.name)
		switch {
		case other == nil:
			l.add(l.placeOf(path), path, UnknownReference, "no stage is called %q%s", clip(r.name), didYouMean(r.name, l.stageNames(s, r.kinds)))
		case other.Config != nil && len(r.kinds) > 0 && !slices.Contains(r.kinds, other.Kind.Name):
			l.add(l.placeOf(path), path, WrongReference, "stage %s is of kind %s, wanted is one of kind %s%s",
				r.name, other.Kind.Name, strings.Join(r.kinds, " or "), candidates(l.stageNames(s, r.kinds)))
		}
	}
}

func candidates(names []string) string {
	if len(names) == 0 {
		return "; this file has none"
	}
	return ": " + strings.Join(names, ", ")
}

func (l *loader) dataNames() []string {
	var names []string
	for name := range l.cfg.Data {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// stageNames lists the stages that s may refer to.
func (l *loader) stageNames(s *StageConfig, kinds []string) []string {
	var names []string
	for _, other := range l.cfg.Stages {
		if other != s && (len(kinds) == 0 || slices.Contains(kinds, other.Kind.Name)) {
			names = append(names, other.Name)
		}
	}
	return names
}

// needs lists the names of one type that a stage refers to, each once, in order of its fields.
func (s *StageConfig) needs(t reflect.Type) []string {
	var names []string
	for _, r := range s.refs {
		if r.typ == t && !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	return names
}

// Needs lists the stages whose results a stage reads.
func (s *StageConfig) Needs() []string { return s.needs(stageRefType) }

// DataSets lists the data sets that a stage reads.
func (s *StageConfig) DataSets() []string { return s.needs(dataRefType) }

// order sorts the stages so that each comes after those it needs, and otherwise as in the file. A loop is a finding.
func (l *loader) order() {
	done := map[string]bool{}
	var sorted []*StageConfig
	waiting := slices.Clone(l.cfg.Stages)
	for len(waiting) > 0 {
		i := slices.IndexFunc(waiting, func(s *StageConfig) bool {
			return !slices.ContainsFunc(s.Needs(), func(n string) bool { return !done[n] && l.cfg.Stage(n) != nil })
		})
		if i < 0 {
			l.cycle(waiting)
			return
		}
		done[waiting[i].Name] = true
		sorted = append(sorted, waiting[i])
		waiting = slices.Delete(waiting, i, i+1)
	}
	l.cfg.Stages = sorted
}

// cycle reports one loop among stages of which each needs another.
func (l *loader) cycle(waiting []*StageConfig) {
	in := map[string]*StageConfig{}
	for _, s := range waiting {
		in[s.Name] = s
	}
	var path []string
	at := waiting[0]
	for !slices.Contains(path, at.Name) {
		path = append(path, at.Name)
		for _, n := range at.Needs() {
			if in[n] != nil {
				at = in[n]
				break
			}
		}
	}
	loop := append(path[slices.Index(path, at.Name):], at.Name)
	key := joined("stages", at.Name)
	for _, r := range at.refs {
		if r.typ == stageRefType && r.name == loop[1] {
			key = joined(key, r.path)
			break
		}
	}
	l.add(l.placeOf(key), key, Cycle, "the stages wait for each other in a loop: %s", strings.Join(loop, " -> "))
}
