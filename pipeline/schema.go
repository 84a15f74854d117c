package pipeline

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// field is one key of a configuration struct, read from its tags:
//
//	yaml:"name"          the key; "-" leaves the field out; an embedded struct without the tag gives its keys to the outer one
//	doc:"..."            one sentence for docs/pipeline.md
//	enum:"a|b"           allowed values of a string, or of each string of a list
//	min, max             inclusive bounds of a number, or of each number of a list
//	above, below         exclusive bounds
//	default:"..."        documentation, since New fills in defaults. It counts in two places: in a struct below a list, mapping
//	                     or pointer, which New cannot fill; and for a DataRef or StageRef, which takes that name when the key
//	                     is absent and the name exists. A list of references with default:"*" takes all: every data set, or
//	                     every other stage of one of its kinds (without kinds: of another kind than its own). A key that
//	                     is given without a value, and is not required, names none
//	required:"true"      absence is a finding
//	unless:"key"         not together with that sibling key, and neither default nor required where that key is given
//	kinds:"a|b"          kinds of stage that a StageRef may name
//	scalar:"true"        in a nested struct: a plain value in place of the mapping is the value of this key
//	fingerprint:"-"      no influence on results, left out of the fingerprint
type field struct {
	index    []int
	typ      reflect.Type
	name     string
	doc      string
	enum     []string
	bounds   bounds
	def      string
	required bool
	unless   string
	kinds    []string
	scalar   bool
	silent   bool // not part of the fingerprint
}

// bounds of a number; nil is unbounded.
type bounds struct{ min, max, above, below *float64 }

// schema is the keys of a struct in the order of its fields.
type schema struct{ fields []field }

func (s *schema) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

func (s *schema) names() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

var (
	dataRefType  = reflect.TypeFor[DataRef]()
	stageRefType = reflect.TypeFor[StageRef]()
	fileRefType  = reflect.TypeFor[FileRef]()
)

var schemas sync.Map // reflect.Type -> *schema

// schemaOf reads the tags of a struct type. An error names the Go field whose tags or type cannot be used. A struct may
// have lists of itself.
func schemaOf(t reflect.Type) (*schema, error) { return schemaWithin(t, nil) }

// schemaWithin is schemaOf for a type below the given ones, whose schemas are being read.
func schemaWithin(t reflect.Type, outer []reflect.Type) (*schema, error) {
	if s, ok := schemas.Load(t); ok {
		return s.(*schema), nil
	}
	s := &schema{}
	if err := s.read(t, nil, append(slices.Clone(outer), t)); err != nil {
		return nil, err
	}
	for _, f := range s.fields {
		if f.unless != "" && s.field(f.unless) == nil {
			return nil, fmt.Errorf("%v: key %s: unless:%q names no key", t, f.name, f.unless)
		}
	}
	schemas.Store(t, s)
	return s, nil
}

// mustSchema is schemaOf for a type that a registry or this package has checked already.
func mustSchema(t reflect.Type) *schema {
	s, err := schemaOf(t)
	if err != nil {
		return &schema{}
	}
	return s
}

// read adds the fields of t, at an index in the struct that the schema is of. reading are that struct and those around it.
func (s *schema) read(t reflect.Type, index []int, reading []reflect.Type) error {
	for i := range t.NumField() {
		sf := t.Field(i)
		at := append(slices.Clone(index), i)
		name, tagged := sf.Tag.Lookup("yaml")
		name, _, _ = strings.Cut(name, ",")
		switch {
		case sf.Anonymous && sf.Type.Kind() == reflect.Struct && name == "":
			if err := s.read(sf.Type, at, reading); err != nil {
				return err
			}
			continue
		case !sf.IsExported() || name == "-":
			continue
		case !tagged || name == "":
			return fmt.Errorf("%v.%s: no yaml tag", t, sf.Name)
		case s.field(name) != nil:
			return fmt.Errorf("%v.%s: the key %s is taken", t, sf.Name, name)
		}
		f, err := readField(sf, name, at, reading)
		if err != nil {
			return fmt.Errorf("%v.%s: %w", t, sf.Name, err)
		}
		s.fields = append(s.fields, f)
	}
	return nil
}

func readField(sf reflect.StructField, name string, index []int, reading []reflect.Type) (field, error) {
	tag := sf.Tag
	f := field{
		index: index, typ: sf.Type, name: name,
		doc: tag.Get("doc"), def: tag.Get("default"), unless: tag.Get("unless"),
		enum: list(tag.Get("enum")), kinds: list(tag.Get("kinds")),
		required: tag.Get("required") == "true",
		scalar:   tag.Get("scalar") == "true",
		silent:   tag.Get("fingerprint") == "-",
	}
	for key, to := range map[string]**float64{
		"min": &f.bounds.min, "max": &f.bounds.max, "above": &f.bounds.above, "below": &f.bounds.below,
	} {
		text, ok := tag.Lookup(key)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return f, fmt.Errorf("%s:%q is not a number", key, text)
		}
		*to = &v
	}
	return f, supported(sf.Type, reading)
}

func list(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, "|")
}

// supported says whether the decoder knows a type. Those that are being read are taken for known.
func supported(t reflect.Type, reading []reflect.Type) error {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Slice, reflect.Pointer:
		return supported(t.Elem(), reading)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return fmt.Errorf("a map with keys of type %v cannot be read from YAML", t.Key())
		}
		return supported(t.Elem(), reading)
	case reflect.Struct:
		if slices.Contains(reading, t) {
			return nil
		}
		_, err := schemaWithin(t, reading)
		return err
	}
	return fmt.Errorf("type %v cannot be read from YAML", t)
}

// wanted names a type for messages and for the reference.
func wanted(t reflect.Type) string {
	switch t {
	case dataRefType:
		return "name of a data set"
	case stageRefType:
		return "name of a stage"
	case fileRefType:
		return "path of a file"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of " + plural(wanted(t.Elem()))
	case reflect.Map:
		return "mapping of names to " + plural(wanted(t.Elem()))
	case reflect.Struct:
		return "mapping"
	case reflect.Pointer:
		return wanted(t.Elem())
	}
	return "integer"
}

func plural(s string) string {
	switch {
	case s == "text" || strings.HasPrefix(s, "true"):
		return s
	case strings.HasPrefix(s, "name of a "):
		return "names of " + strings.TrimPrefix(s, "name of a ") + "s"
	case s == "path of a file":
		return "paths of files"
	case strings.HasPrefix(s, "list of "):
		return "lists of " + strings.TrimPrefix(s, "list of ")
	case strings.HasPrefix(s, "mapping of"):
		return "mappings of" + strings.TrimPrefix(s, "mapping of")
	}
	return s + "s"
}
