package datasets

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// source is a kind of place that rows come from. Its file registers it in an init function, so that a new source is one
// new file.
type source struct {
	name string
	keys []string // keys of Spec that it reads, beside those that all sources share
	need []string // those of keys that must be given
	data string   // version of the data where they are in the program: part of a set's identity

	lint func(Spec) []Problem // findings beyond missing and superfluous keys; may be nil
	open func(Spec, site) (*opened, error)
}

// site is what a source knows beside its Spec.
type site struct {
	name    string                   // of the entry
	resolve func(path string) string // makes a path of the config relative to the working directory
	classes int                      // size of the label space; 0 where unknown
}

// opened is a source whose headers have been read and checked.
type opened struct {
	shape    []int
	float    bool
	labelled bool
	stringID bool
	classes  []string  // where the source itself knows them
	span     []float64 // usual lowest and highest value; nil where unknown
	rows     int64
	files    []string
	start    func(ctx context.Context) (stream, error) // a new pass from row 0
}

var sources []source

func register(s source) {
	sources = append(sources, s)
	slices.SortFunc(sources, func(a, b source) int { return cmp.Compare(a.name, b.name) })
}

func findSource(name string) (source, bool) {
	i := slices.IndexFunc(sources, func(s source) bool { return s.name == name })
	if i < 0 {
		return source{}, false
	}
	return sources[i], true
}

func sourceNames() []string {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.name
	}
	return names
}

// commonKeys are the keys that every source understands.
var commonKeys = []string{"source", "num_classes", "class_names", "skip", "limit", "bad_rows", "range"}

// deriveKeys are the keys that every derived set understands.
var deriveKeys = []string{"derive", "of", "skip", "limit"}

// classNames is the label space that a Spec states.
func classNames(s Spec) []string {
	if len(s.ClassNames) > 0 {
		return s.ClassNames
	}
	return numbered(s.NumClasses)
}

// numbered names n classes 0, 1, ...; nil for n = 0.
func numbered(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint(i))
	}
	return names
}
