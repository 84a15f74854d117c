package datasets

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jempipe/jempipe/internal/fault"
)

func TestLint(t *testing.T) {
	good := Spec{Source: "builtin:digits"}
	for _, c := range []struct {
		name string
		spec Spec
		want []string // "key: start of the message"
	}{
		{"digits", good, nil},
		{"digits in full", Spec{Source: "builtin:digits", Split: "train", Skip: 1, Limit: 2, BadRows: "keep", Range: []float64{0, 16}}, nil},
		{"idx", Spec{Source: "idx", Images: "a", Labels: "b", NumClasses: 10}, nil},
		{"parquet", Spec{Source: "parquet", Path: "a", X: "v", Label: "y", ID: "k", Shape: []int{8, 8}, ClassNames: []string{"a", "b"}}, nil},
		{"derived", Spec{Derive: "gaussian_noise", Of: "other", Std: 0.5, Limit: 10}, nil},
		{"defaults filled in", Spec{Source: "idx", Images: "a", Split: "all", X: "x", BadRows: "fail", Std: 1, Weight: 0.5}, nil},
		{"nothing", Spec{}, []string{"source: missing: one of builtin:digits, idx, parquet"}},
		{"both", Spec{Source: "idx", Images: "a", Derive: "inversion", Of: "other"}, []string{"derive: source and derive exclude each other"}},
		{"unknown source", Spec{Source: "paquet"}, []string{`source: unknown source "paquet" (did you mean parquet?); there are builtin:digits`}},
		{"unknown derivation", Spec{Derive: "invertion", Of: "other"}, []string{`derive: unknown derivation "invertion" (did you mean`}},
		{"missing path", Spec{Source: "parquet"}, []string{"path: missing: source: parquet needs it"}},
		{"missing images", Spec{Source: "idx", Labels: "b"}, []string{"images: missing"}},
		{"missing of", Spec{Derive: "inversion"}, []string{"of: missing"}},
		{"unknown of", Spec{Derive: "inversion", Of: "othr"}, []string{`of: there is no data set "othr" (did you mean other?)`}},
		{"itself", Spec{Derive: "inversion", Of: "d"}, []string{"of: the entry is derived from itself"}},
		{"circle", Spec{Derive: "inversion", Of: "e"}, []string{"of: the entry is derived from itself"}},
		{"keys of another source", Spec{Source: "idx", Images: "a", Path: "b", Split: "train", Shape: []int{2}}, []string{"split: has no meaning with source: idx", "path: has no meaning", "shape: has no meaning"}},
		{"keys of a source", Spec{Derive: "inversion", Of: "other", BadRows: "keep", Std: 2, NumClasses: 3}, []string{"num_classes: has no meaning with derive: inversion", "bad_rows: has", "std: has"}},
		{"of without derive", Spec{Source: "idx", Images: "a", Of: "other"}, []string{"of: has no meaning with source: idx"}},
		{"classes of the digits", Spec{Source: "builtin:digits", NumClasses: 10}, []string{"num_classes: builtin:digits has its ten classes"}},
		{"classes twice", Spec{Source: "idx", Images: "a", NumClasses: 2, ClassNames: []string{"a", "b"}}, []string{"class_names: class_names and num_classes say the same thing"}},
		{"class names", Spec{Source: "idx", Images: "a", ClassNames: []string{"a", "", "a"}}, []string{"class_names: name 1 is empty", `class_names: names 0 and 2 are both "a"`}},
		{"numbers", Spec{Source: "idx", Images: "a", NumClasses: -1, Skip: -1, Limit: -2}, []string{"num_classes: -1 classes", "skip: -1 rows", "limit: -2 rows"}},
		{"range", Spec{Source: "idx", Images: "a", Range: []float64{1, 1}}, []string{"range: [1 1], wanted two numbers, the lower first"}},
		{"range of three", Spec{Source: "idx", Images: "a", Range: []float64{0, 1, 2}}, []string{"range: [0 1 2], wanted two numbers"}},
		{"shape", Spec{Source: "parquet", Path: "a", Shape: []int{8, 0}}, []string{"shape: shape [8 0] has dimension 0"}},
		{"large shape", Spec{Source: "parquet", Path: "a", Shape: []int{1 << 20, 1 << 20}}, []string{"shape: shape [1048576 1048576] has more than"}},
		{"std", Spec{Derive: "gaussian_noise", Of: "other", Std: -1}, []string{"std: -1, wanted a positive number"}},
		{"weight", Spec{Derive: "interpolation", Of: "other", Weight: 2}, []string{"weight: 2, wanted a number from 0 to 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewSet(map[string]Spec{"d": c.spec, "other": good, "e": {Derive: "inversion", Of: "d"}}, 1, "")
			found := s.Lint("d")
			if len(found) != len(c.want) {
				t.Fatalf("found %+v, want %q", found, c.want)
			}
			for i, p := range found {
				if got := p.Key + ": " + p.Message; !strings.HasPrefix(got, c.want[i]) {
					t.Errorf("finding %q, want %q", got, c.want[i])
				}
			}
			if len(c.want) > 0 {
				_, err := s.Get("d")
				wantFault(t, err, fault.Config, "data.d."+strings.SplitN(c.want[0], ":", 2)[0])
			}
		})
	}
	s := NewSet(map[string]Spec{"digits": good}, 1, "")
	_, err := s.Get("digit")
	wantFault(t, err, fault.Config, "data: there is no data set digit (did you mean digits?)")
}

// Every field of Spec can be decoded and documented.
func TestSpecTags(t *testing.T) {
	typ := reflect.TypeOf(Spec{})
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Tag.Get("yaml") == "" || !strings.HasSuffix(f.Tag.Get("doc"), ".") {
			t.Errorf("field %s lacks a yaml or doc tag", f.Name)
		}
	}
	if diff := cmp.Diff(strings.Split("train|valid|test|all", "|"), strings.Split(tagOf(typ, "Split", "enum"), "|")); diff != "" {
		t.Error(diff)
	}
	var kinds []string
	for _, name := range strings.Split(tagOf(typ, "Derive", "enum"), "|") {
		if _, ok := findDerivation(name); ok {
			kinds = append(kinds, name)
		}
	}
	if len(kinds) != len(derivations) {
		t.Errorf("enum of derive has %v, the program %v", kinds, derivationNames())
	}
}

func tagOf(typ reflect.Type, field, key string) string {
	f, _ := typ.FieldByName(field)
	return f.Tag.Get(key)
}

func TestIdentity(t *testing.T) {
	base := Spec{Source: "idx", Images: "a", Labels: "b", NumClasses: 3}
	derived := Spec{Derive: "uniform_noise", Of: "d"}
	ids := map[string]string{}
	add := func(name, id string) {
		t.Helper()
		if id == "" {
			t.Errorf("%s: no identity", name)
		}
		for other, known := range ids {
			if known == id {
				t.Errorf("%s and %s have the same identity %q", name, other, id)
			}
		}
		ids[name] = id
	}
	one := func(s Spec, seed uint64) string { return NewSet(map[string]Spec{"d": s}, seed, "").Identity("d") }
	add("base", one(base, 1))
	for name, change := range map[string]func(*Spec){
		"classes":  func(s *Spec) { s.NumClasses = 4 },
		"names":    func(s *Spec) { s.NumClasses, s.ClassNames = 0, []string{"a", "b", "c"} },
		"skip":     func(s *Spec) { s.Skip = 1 },
		"limit":    func(s *Spec) { s.Limit = 1 },
		"bad rows": func(s *Spec) { s.BadRows = "keep" },
		"range":    func(s *Spec) { s.Range = []float64{0, 1} },
		"labels":   func(s *Spec) { s.Labels = "" },
		"source":   func(s *Spec) { s.Source = "parquet" },
		"column":   func(s *Spec) { s.X = "v" },
		"shape":    func(s *Spec) { s.Shape = []int{2, 2} },
		"split":    func(s *Spec) { s.Split = "train" },
	} {
		s := base
		change(&s)
		add(name, one(s, 1))
	}
	two := func(d Spec, seed uint64, name string, base Spec) string {
		return NewSet(map[string]Spec{"d": base, name: d}, seed, "").Identity(name)
	}
	add("derived", two(derived, 1, "n", base))
	add("derived, other seed", two(derived, 2, "n", base))
	add("derived, other name", two(derived, 1, "m", base))
	add("derived from a changed base", two(derived, 1, "n", Spec{Source: "idx", Images: "a", Labels: "b", NumClasses: 3, Skip: 1}))
	gauss := Spec{Derive: "gaussian_noise", Of: "d"}
	add("gaussian", two(gauss, 1, "n", base))
	gauss.Std = 0.5
	add("gaussian, other std", two(gauss, 1, "n", base))
	inverse := Spec{Derive: "inversion", Of: "d"}
	add("inversion", two(inverse, 1, "n", base))

	// What decides no row does not change the identity.
	moved := base
	moved.Images, moved.Labels, moved.BadRows = "c", "d", "fail"
	if one(moved, 2) != ids["base"] {
		t.Error("paths, a default written out or the seed change the identity of read data")
	}
	if two(inverse, 2, "m", base) != ids["inversion"] {
		t.Error("the seed or the name change the identity of an inversion")
	}
	if got := NewSet(nil, 1, "").Identity("d"); got != "" {
		t.Errorf("identity of an unknown entry %q", got)
	}
	if got := one(Spec{Derive: "inversion", Of: "d"}, 1); got != "" {
		t.Errorf("identity of a circle %q", got)
	}
	const want = `datasets/1
split: "test"
x: "x"
limit: 5
bad_rows: "fail"
std: 1
weight: 0.5
source: "builtin:digits"
data: digits 8x8, 1797 rows, split 1
`
	got := one(Spec{Source: "builtin:digits", Split: "test", Limit: 5}, 1)
	if sorted(got) != sorted(want) {
		t.Errorf("identity %s, want the lines of %s", got, want)
	}
}

func sorted(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
