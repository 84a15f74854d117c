package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
)

// FindingKind names what is wrong with a place in pipeline.yaml.
type FindingKind string

const (
	Syntax           FindingKind = "syntax"            // not YAML, or YAML that is not understood here
	EmptyFile        FindingKind = "empty file"        // no content at all
	SecondDocument   FindingKind = "second document"   // a file holds one configuration
	UnknownKey       FindingKind = "unknown key"       // no such key here
	DuplicateKey     FindingKind = "duplicate key"     // the same key twice in one mapping
	MissingKey       FindingKind = "missing key"       // a key that must be given
	WrongType        FindingKind = "wrong type"        // text where a number is wanted, and so on
	OutOfRange       FindingKind = "out of range"      // a number beyond its bounds
	NotAllowed       FindingKind = "not allowed"       // not one of the allowed values, or a name that cannot be one
	UnknownKind      FindingKind = "unknown kind"      // no such stage kind
	UnknownReference FindingKind = "unknown reference" // no such data set or stage
	WrongReference   FindingKind = "wrong reference"   // a stage of a kind that does not fit
	Cycle            FindingKind = "cycle"             // stages that wait for each other
	Problem          FindingKind = "problem"           // what a stage kind or a data source found in its own keys
)

// Finding is one thing that is wrong with a configuration file.
type Finding struct {
	File    string
	Line    int // from 1
	Column  int // from 1, in characters
	Path    string
	Kind    FindingKind
	Message string
}

// String is file:line:column: path: message.
func (f Finding) String() string {
	s := fmt.Sprintf("%s:%d:%d: ", f.File, f.Line, f.Column)
	if f.Path != "" {
		s += f.Path + ": "
	}
	return s + f.Message
}

// maxFindings bounds the length of an error message for a file that is no configuration at all.
const maxFindings = 200

// findings collects, then sorts by position.
type findings struct {
	file string
	all  []Finding
	lost int // findings beyond maxFindings
}

func (fs *findings) add(p place, path string, kind FindingKind, format string, args ...any) {
	if len(fs.all) >= maxFindings {
		fs.lost++
		return
	}
	fs.all = append(fs.all, Finding{fs.file, max(p.line, 1), max(p.col, 1), path, kind, fmt.Sprintf(format, args...)})
}

func (fs *findings) sorted() []Finding {
	slices.SortStableFunc(fs.all, func(a, b Finding) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Path, b.Path))
	})
	return slices.Compact(fs.all)
}

func (fs *findings) err() error {
	if len(fs.all) == 0 {
		return nil
	}
	return &ConfigError{Findings: fs.sorted(), Left: fs.lost}
}

// ConfigError is everything that is wrong with a configuration file, sorted by position. Its fault kind is Config.
type ConfigError struct {
	Findings []Finding
	Left     int // findings beyond the first few hundred
}

// Error is one line for each finding.
func (e *ConfigError) Error() string {
	var b strings.Builder
	for i, f := range e.Findings {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(f.String())
	}
	if e.Left > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.Left)
	}
	return b.String()
}

// Unwrap carries the fault kind.
func (e *ConfigError) Unwrap() error {
	return fault.New(fault.Config, "", "%d findings", len(e.Findings)+e.Left)
}
