package datasets

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/internal/nearest"
)

// Lint checks an entry without reading data: what is missing, and what does not go together. Findings come in the order
// of the keys of Spec. Names in `enum` tags and bounds in `min` and `max` tags are the decoder's to check.
func (s *Set) Lint(name string) []Problem {
	spec, ok := s.specs[name]
	if !ok {
		return []Problem{{"", "there is no data set " + name + didYouMean(name, s.names())}}
	}
	var found []Problem
	switch {
	case spec.Source == "" && spec.Derive == "":
		found = append(found, Problem{"source", "missing: one of " + strings.Join(sourceNames(), ", ") + "; or set derive and of to make a set from another one"})
	case spec.Source != "" && spec.Derive != "":
		found = append(found, Problem{"derive", "source and derive exclude each other: remove one"})
	case spec.Derive != "":
		found = s.lintDerived(name, spec)
	default:
		found = lintSource(spec)
	}
	found = append(found, lintValues(spec)...)
	order := specKeys()
	slices.SortStableFunc(found, func(a, b Problem) int {
		return slices.Index(order, a.Key) - slices.Index(order, b.Key)
	})
	return found
}

func lintSource(spec Spec) []Problem {
	src, ok := findSource(spec.Source)
	if !ok {
		return []Problem{{"source", fmt.Sprintf("unknown source %q%s; there are %s", spec.Source,
			didYouMean(spec.Source, sourceNames()), strings.Join(sourceNames(), ", "))}}
	}
	found := superfluous(spec, slices.Concat(commonKeys, src.keys), "source: "+src.name)
	given := givenKeys(spec)
	for _, key := range src.need {
		if !slices.Contains(given, key) {
			found = append(found, Problem{key, "missing: source: " + src.name + " needs it"})
		}
	}
	if src.lint != nil {
		found = append(found, src.lint(spec)...)
	}
	return found
}

func (s *Set) lintDerived(name string, spec Spec) []Problem {
	d, ok := findDerivation(spec.Derive)
	if !ok {
		return []Problem{{"derive", fmt.Sprintf("unknown derivation %q%s; there are %s", spec.Derive,
			didYouMean(spec.Derive, derivationNames()), strings.Join(derivationNames(), ", "))}}
	}
	found := superfluous(spec, slices.Concat(deriveKeys, d.keys), "derive: "+d.name)
	switch _, known := s.specs[spec.Of]; {
	case spec.Of == "":
		found = append(found, Problem{"of", "missing: name the entry to start from"})
	case !known:
		found = append(found, Problem{"of", fmt.Sprintf("there is no data set %q%s", spec.Of, didYouMean(spec.Of, s.names()))})
	case s.circular(name):
		found = append(found, Problem{"of", "the entry is derived from itself: start from one with a source"})
	}
	return found
}

// circular tells whether the chain of `of` from name ever comes back to an entry.
func (s *Set) circular(name string) bool {
	seen := map[string]bool{}
	for at := name; ; at = s.specs[at].Of {
		if seen[at] {
			return true
		}
		seen[at] = true
		if spec, ok := s.specs[at]; !ok || spec.Derive == "" {
			return false
		}
	}
}

// lintValues checks values that mean the same for every source.
func lintValues(spec Spec) []Problem {
	var found []Problem
	add := func(key, format string, args ...any) {
		found = append(found, Problem{key, fmt.Sprintf(format, args...)})
	}
	if _, err := product(spec.Shape); err != nil {
		add("shape", "%v", err)
	}
	if spec.NumClasses < 0 {
		add("num_classes", "%d classes, wanted at least 1", spec.NumClasses)
	}
	if n := len(spec.ClassNames); n > 0 && spec.NumClasses > 0 {
		add("class_names", "class_names and num_classes say the same thing: remove one")
	}
	for i, name := range spec.ClassNames {
		if name == "" {
			add("class_names", "name %d is empty", i)
		} else if first := slices.Index(spec.ClassNames, name); first < i {
			add("class_names", "names %d and %d are both %q", first, i, name)
		}
	}
	if spec.Skip < 0 {
		add("skip", "%d rows, wanted 0 or more", spec.Skip)
	}
	if spec.Limit < 0 {
		add("limit", "%d rows, wanted 0 or more", spec.Limit)
	}
	if r := spec.Range; len(r) > 0 {
		if len(r) != 2 || !(r[0] < r[1]) || math.IsInf(r[0], 0) || math.IsInf(r[1], 0) {
			add("range", "%v, wanted two numbers, the lower first, such as [0, 255]", r)
		}
	}
	if spec.Std < 0 || math.IsNaN(spec.Std) || math.IsInf(spec.Std, 0) {
		add("std", "%g, wanted a positive number", spec.Std)
	}
	if !(spec.Weight >= 0 && spec.Weight <= 1) {
		add("weight", "%g, wanted a number from 0 to 1", spec.Weight)
	}
	return found
}

// superfluous reports keys that are given and not among those allowed.
func superfluous(spec Spec, allowed []string, where string) []Problem {
	var found []Problem
	for _, key := range givenKeys(spec) {
		if !slices.Contains(allowed, key) {
			found = append(found, Problem{key, "has no meaning with " + where + ": remove it"})
		}
	}
	return found
}

// specKeys lists the yaml keys of Spec in order.
func specKeys() []string {
	var keys []string
	for f := range fields(Spec{}) {
		keys = append(keys, f.key)
	}
	return keys
}

// givenKeys lists the keys whose values are neither zero nor the default.
func givenKeys(spec Spec) []string {
	var keys []string
	for f := range fields(spec) {
		if !f.value.IsZero() && f.text() != f.preset {
			keys = append(keys, f.key)
		}
	}
	return keys
}

type field struct {
	key    string
	preset string // text of the default tag
	value  reflect.Value
}

func (f field) text() string { return fmt.Sprint(f.value.Interface()) }

func fields(spec Spec) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		v := reflect.ValueOf(spec)
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			if !yield(field{tag.Get("yaml"), tag.Get("default"), v.Field(i)}) {
				return
			}
		}
	}
}

// maxWidth bounds the number of values of one sample.
const maxWidth = 1 << 26

// product is the number of values of a shape; 1 for no shape.
func product(shape []int) (int, error) {
	n := 1
	for _, d := range shape {
		if d < 1 {
			return 0, fmt.Errorf("shape %v has dimension %d, wanted at least 1", shape, d)
		}
		if d > maxWidth/n {
			return 0, fmt.Errorf("shape %v has more than %d values", shape, maxWidth)
		}
		n *= d
	}
	return n, nil
}

func didYouMean(name string, known []string) string {
	if near := nearest.To(name, known); near != "" && near != name {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}
