package pipeline

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/datasets"
)

// Reference is docs/pipeline.md: every key of pipeline.yaml, from the tags that the decoder uses.
func Reference(reg *Registry) string {
	var b strings.Builder
	b.WriteString(`# pipeline.yaml

Every key that the file may have. A key that is absent takes its default. Unknown keys, wrong types and names of data sets
or stages that do not exist are errors, told all at once with file, line and column.

A list may be given as a single value. Anchors, aliases and merge keys (` + "`<<`" + `) work. Relative paths start at the folder
of the file.

## Top level

`)
	table(&b, reflect.ValueOf(file{Output: "runs", Seed: 1, Runtime: runtimeKeys{Provider: "auto"}}))
	row(&b, "stages", "mapping of names to stages", "", true, nil, "What to do. A stage runs after those that it refers to; the order in the file does not matter otherwise.")
	b.WriteString(`
## data.NAME

One data set. NAME has letters, digits, dashes and underscores; it is the ` + "`dataset`" + ` column of every table.

`)
	table(&b, reflect.ValueOf(datasets.Spec{}))
	b.WriteString(`
## stages.NAME

One stage. Its results are in the folder NAME of the run. Which keys it has depends on its kind.

`)
	head(&b)
	row(&b, "kind", "text", "NAME", false, reg.Names(), "Kind of the stage.")
	for _, name := range reg.Names() {
		k, _ := reg.Lookup(name)
		fmt.Fprintf(&b, "\n## Stage kind `%s`\n\n%s\n\n", k.Name, k.Summary)
		table(&b, reflect.ValueOf(k.New()).Elem())
	}
	return b.String()
}

// KindReference is the table of every key of a stage kind.
func KindReference(k Kind) string {
	var b strings.Builder
	table(&b, reflect.ValueOf(k.New()).Elem())
	return b.String()
}

func head(b *strings.Builder) {
	b.WriteString("| key | type | default | meaning |\n| --- | --- | --- | --- |\n")
}

// table writes a row for each key of a struct, whose values are the defaults.
func table(b *strings.Builder, v reflect.Value) {
	if len(mustSchema(v.Type()).fields) == 0 {
		b.WriteString("No keys.\n")
		return
	}
	head(b)
	rows(b, v, "")
}

// rows writes a row for each key of a struct and of those in it. within are the structs around it, whose keys are not
// written again.
func rows(b *strings.Builder, v reflect.Value, prefix string, within ...reflect.Type) {
	within = append(slices.Clone(within), v.Type())
	for _, f := range mustSchema(v.Type()).fields {
		fv := v.FieldByIndex(f.index)
		if f.typ == reflect.TypeFor[map[string]datasets.Spec]() {
			row(b, prefix+f.name, "mapping of names to data sets", "", f.required, nil, f.doc)
			continue
		}
		inner, mark := f.typ, ""
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			switch inner.Kind() {
			case reflect.Slice:
				mark += "[]"
			case reflect.Map:
				mark += ".NAME"
			}
			inner = inner.Elem()
		}
		doc := f.meaning()
		again := slices.Contains(within, inner)
		if again {
			doc += " With the same keys as this list."
		}
		row(b, prefix+f.name, f.describe(), f.defaultText(fv), f.required, f.enum, doc)
		if inner.Kind() != reflect.Struct || again {
			continue
		}
		if fv.Kind() != reflect.Struct {
			fv = reflect.New(inner).Elem()
		}
		rows(b, fv, prefix+f.name+mark+".", within...)
	}
}

func row(b *strings.Builder, key, typ, def string, required bool, allowed []string, doc string) {
	if len(allowed) > 0 {
		doc = strings.TrimSpace(doc + " One of `" + strings.Join(allowed, "`, `") + "`.")
	}
	if def != "" {
		def = "`" + def + "`"
	}
	switch {
	case required && def != "":
		def += " where there is one, else required"
	case required:
		def = "required"
	}
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", key, cell.Replace(typ), cell.Replace(def), cell.Replace(doc))
}

// describe is the type of a key with its bounds.
func (f *field) describe() string {
	s := wanted(f.typ)
	if b := f.bounds; b.min != nil && b.max != nil && *b.min == *b.max {
		return s + " " + number(*b.min)
	}
	var limits []string
	for _, l := range []struct {
		at   *float64
		text string
	}{{f.bounds.min, "at least "}, {f.bounds.above, "more than "}, {f.bounds.max, "at most "}, {f.bounds.below, "less than "}} {
		if l.at != nil {
			limits = append(limits, l.text+number(*l.at))
		}
	}
	if len(limits) > 0 {
		s += ", " + strings.Join(limits, ", ")
	}
	if len(f.kinds) > 0 {
		s += " of kind " + strings.Join(f.kinds, " or ")
	}
	return s
}

// defaultText is the value that New gives, else what the tag says.
func (f *field) defaultText(v reflect.Value) string {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	inner := v.Kind() == reflect.Struct || v.Kind() == reflect.Map
	switch {
	case f.def == "*":
		return "all"
	case v.IsZero() || inner || v.Kind() == reflect.Slice && v.Len() == 0:
		if f.def == "" && v.Kind() == reflect.Bool {
			return "false"
		}
		return strings.ReplaceAll(f.def, "|", ", ")
	case v.Kind() == reflect.String:
		return v.String()
	}
	text, err := json.Marshal(canonical(v))
	if err != nil {
		return f.def
	}
	return strings.ReplaceAll(string(text), ",", ", ")
}

func (f *field) meaning() string {
	doc := f.doc
	if f.unless != "" {
		doc += " Not together with `" + f.unless + "`."
	}
	if f.scalar {
		doc += " May be given alone in place of the mapping."
	}
	if f.filled() && f.optional(f.typ) && f.typ.Kind() != reflect.Slice {
		doc += " Given but empty: none."
	}
	if f.silent {
		doc += " Does not change results."
	}
	return strings.TrimSpace(doc)
}
