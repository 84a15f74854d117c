// Package fault is how a failure is told to a person: where it happened, what was found and wanted, and what to do.
// Its kind decides the exit code.
package fault

import (
	"context"
	"errors"
	"fmt"
)

// Kind says whose turn it is to act on an error.
type Kind int

const (
	Internal Kind = iota // a stage failed: exit code 1
	Usage                // the command line is wrong: exit code 2
	Config               // pipeline.yaml is wrong: exit code 3
	Data                 // input data or a model file is wrong: exit code 4
)

// Error is a failure with its place and its remedy.
type Error struct {
	Kind   Kind
	Where  string // file:line:column, file and row, node and operator; may be empty
	What   string // what was found and what was wanted
	Remedy string // what to do about it; may be empty
	Err    error  // the cause; may be nil
}

// New makes an error of a kind at a place. The message says what was found and what was wanted.
func New(kind Kind, where, format string, args ...any) *Error {
	return &Error{Kind: kind, Where: where, What: fmt.Sprintf(format, args...)}
}

// Do adds the remedy.
func (e *Error) Do(format string, args ...any) *Error {
	e.Remedy = fmt.Sprintf(format, args...)
	return e
}

// Because adds the cause, which errors.Is and errors.As then find.
func (e *Error) Because(err error) *Error {
	e.Err = err
	return e
}

// Error is one line: place, what, cause and remedy.
func (e *Error) Error() string {
	s := e.What
	if e.Where != "" {
		s = e.Where + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf is the kind of the outermost Error in err's chain; Internal where there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// ExitCode is the process exit code for err: 0 nil, 1 a stage failed, 2 usage, 3 config invalid, 4 input data
// invalid, 130 stopped by the user. The caller knows the signal and turns 130 into 143 for SIGTERM.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled):
		return 130
	}
	return map[Kind]int{Internal: 1, Usage: 2, Config: 3, Data: 4}[KindOf(err)]
}
