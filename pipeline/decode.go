package pipeline

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/internal/nearest"
)

// decoder fills Go structs from nodes. It goes on after a finding, so that all of them are told at once.
type decoder struct {
	*findings
	keys   map[string]place      // path -> position of the key
	values map[string]place      // path -> position of the value; a path is present where the file gives the key
	left   int                   // nodes that may still be decoded: bounds the work that aliases can ask for
	fresh  func(v reflect.Value) // fills in a struct that the decoder makes; may be nil
}

const maxNodes = 1_000_000

func newDecoder(fs *findings) *decoder {
	return &decoder{findings: fs, keys: map[string]place{}, values: map[string]place{}, left: maxNodes}
}

// placeOf is where to point for a path: its value, else its key, else what encloses it.
func (d *decoder) placeOf(path string) place {
	for {
		if p, ok := d.values[path]; ok && p.line > 0 {
			return p
		}
		if p, ok := d.keys[path]; ok {
			return p
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return place{}
		}
		path = path[:i]
	}
}

// keyOf is like placeOf, but prefers the key.
func (d *decoder) keyOf(path string) place {
	if p, ok := d.keys[path]; ok {
		return p
	}
	return d.placeOf(path)
}

// value decodes n into v. f is the field's tags, whose enum and bounds also hold for the elements of a list or mapping.
func (d *decoder) value(n *node, v reflect.Value, f *field, path string) {
	if d.left--; d.left < 0 {
		return
	}
	d.values[path] = n.at
	t := v.Type()
	switch t.Kind() {
	case reflect.Pointer:
		if n.kind == nullNode {
			return
		}
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
			d.made(v.Elem())
		}
		d.value(n, v.Elem(), f, path)
	case reflect.Struct:
		d.object(n, v, path)
	case reflect.Map:
		d.mapping(n, v, f, path)
	case reflect.Slice:
		d.list(n, v, f, path)
	default:
		d.scalar(n, v, f, path)
	}
}

func (d *decoder) made(v reflect.Value) {
	if d.fresh != nil && v.Kind() == reflect.Struct {
		d.fresh(v)
	}
}

// fromTags gives the fields of a struct the defaults of their tags.
func fromTags(v reflect.Value) {
	for _, f := range mustSchema(v.Type()).fields {
		fv := v.FieldByIndex(f.index)
		switch {
		case fv.Kind() == reflect.Struct:
			fromTags(fv)
		case f.def != "" && isScalar(f.typ.Kind()) && !isRef(f.typ):
			setScalar(&node{kind: scalarNode, text: f.def}, fv)
		}
	}
}

func (d *decoder) scalar(n *node, v reflect.Value, f *field, path string) {
	if n.kind == nullNode && f.optional(v.Type()) {
		return
	}
	if n.kind != scalarNode {
		d.add(d.placeOf(path), path, WrongType, "%s found, %s wanted", n.found(), wanted(v.Type()))
		return
	}
	if kind, msg := setScalar(n, v); msg != "" {
		d.add(n.at, path, kind, "%s", msg)
		return
	}
	if msg := f.bounds.check(v, n.text); msg != "" {
		d.add(n.at, path, OutOfRange, "%s", msg)
	}
	if v.Kind() == reflect.String && len(f.enum) > 0 && !slices.Contains(f.enum, n.text) {
		d.add(n.at, path, NotAllowed, "%q is not one of %s%s", clip(n.text), strings.Join(f.enum, ", "), near(n.text, f.enum))
	}
}

// list decodes a list; a scalar or mapping alone is taken as a list of one.
func (d *decoder) list(n *node, v reflect.Value, f *field, path string) {
	items := n.items
	switch n.kind {
	case nullNode:
		d.add(d.placeOf(path), path, WrongType, "nothing found, %s wanted ([] is an empty one)", wanted(v.Type()))
		return
	case scalarNode, mapNode:
		items = []*node{n}
		if n.kind == mapNode && v.Type().Elem().Kind() != reflect.Struct {
			d.add(n.at, path, WrongType, "a mapping found, %s wanted", wanted(v.Type()))
			return
		}
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		d.made(out.Index(i))
		d.value(item, out.Index(i), f, indexed(path, i))
	}
	v.Set(out)
}

func (d *decoder) mapping(n *node, v reflect.Value, f *field, path string) {
	if n.kind == nullNode {
		return
	}
	if n.kind != mapNode {
		d.add(n.at, path, WrongType, "%s found, %s wanted", n.found(), wanted(v.Type()))
		return
	}
	t := v.Type()
	out := reflect.MakeMapWithSize(t, len(n.entries))
	for _, e := range n.entries {
		at := joined(path, e.key)
		d.keys[at] = e.at
		elem := reflect.New(t.Elem()).Elem()
		d.made(elem)
		d.value(e.value, elem, f, at)
		out.SetMapIndex(reflect.ValueOf(e.key).Convert(t.Key()), elem)
	}
	v.Set(out)
}

// object decodes a mapping into a struct. Keys named in extra are left to the caller.
func (d *decoder) object(n *node, v reflect.Value, path string, extra ...string) {
	s := mustSchema(v.Type())
	switch n.kind {
	case mapNode:
	case nullNode:
		d.absent(s, n, path)
		return
	case scalarNode:
		for i := range s.fields {
			if f := &s.fields[i]; f.scalar {
				d.value(n, v.FieldByIndex(f.index), f, joined(path, f.name))
				return
			}
		}
		fallthrough
	default:
		d.add(n.at, path, WrongType, "%s found, a mapping with the keys %s wanted", n.found(), strings.Join(append(s.names(), extra...), ", "))
		return
	}
	for _, e := range n.entries {
		at := joined(path, e.key)
		f := s.field(e.key)
		switch {
		case f != nil:
			d.keys[at] = e.at
			d.value(e.value, v.FieldByIndex(f.index), f, at)
		case !slices.Contains(extra, e.key):
			known := append(s.names(), extra...)
			d.add(e.at, at, UnknownKey, "there is no such key%s", didYouMean(e.key, known))
		}
	}
	d.absent(s, n, path)
}

// absent reports required keys that are not given and keys that exclude each other.
func (d *decoder) absent(s *schema, n *node, path string) {
	for _, f := range s.fields {
		_, given := n.get(f.name)
		other := false
		if f.unless != "" {
			_, other = n.get(f.unless)
		}
		switch {
		case given && other:
			d.add(d.keyOf(joined(path, f.name)), joined(path, f.name), NotAllowed, "not together with %s: give one of them", f.unless)
		case f.required && !given && !other && !f.filled():
			alternative := ""
			if f.unless != "" {
				alternative = " (or " + f.unless + ")"
			}
			d.add(d.keyOf(path), joined(path, f.name), MissingKey, "the key is missing: %s wanted%s", wanted(f.typ), alternative)
		}
	}
}

// filled says whether an absent key is filled in once the names of all data sets and stages are known.
func (f *field) filled() bool {
	t := f.typ
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return f.def != "" && (t == stageRefType || t == dataRefType)
}

// optional says whether an empty value of type t means that the default reference is not wanted.
func (f *field) optional(t reflect.Type) bool {
	return !f.required && f.typ == t && isRef(t)
}

// didYouMean is a hint with the known name nearest to name, or with all of them where none is near and they are few.
func didYouMean(name string, known []string) string {
	if hint := near(name, known); hint != "" {
		return hint
	}
	if len(known) > 0 && len(known) <= 20 {
		sorted := slices.Sorted(slices.Values(known))
		return "; known: " + strings.Join(sorted, ", ")
	}
	return ""
}

func near(name string, known []string) string {
	if k := nearest.To(name, known); k != "" {
		return fmt.Sprintf("; did you mean %s?", k)
	}
	return ""
}
