package datasets

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
)

// place is where in the data something is. Parts that do not apply are negative or empty.
type place struct {
	file   string
	group  int   // row group, from 0
	row    int64 // row of the file, from 0
	column string
}

func inFile(path string) place { return place{file: path, group: -1, row: -1} }

func (p place) String() string {
	var parts []string
	if p.group >= 0 {
		parts = append(parts, fmt.Sprintf("row group %d", p.group))
	}
	if p.row >= 0 {
		parts = append(parts, fmt.Sprintf("row %d", p.row))
	}
	if p.column != "" {
		parts = append(parts, "column "+p.column)
	}
	if len(parts) == 0 {
		return p.file
	}
	return p.file + ": " + strings.Join(parts, ", ")
}

func (p place) errorf(format string, args ...any) *fault.Error {
	return fault.New(fault.Data, p.String(), format, args...)
}

// cause prepares an error of a library or of the system to be wrapped. An end of file that comes too early must not
// look like the regular end of a Reader.
func cause(err error) error {
	switch {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		return errors.New(err.Error())
	}
	return err
}

// guard runs code that calls parquet-go, which panics on some damaged files, and turns a panic into an error at the
// place where reading stood.
func guard(at func() place, do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(at()).Because(fmt.Errorf("%v", r))
		}
	}()
	return do()
}

func damaged(at place) *fault.Error {
	return at.errorf("the file is damaged").Do("write it again or fetch a fresh copy")
}

// badLabel says what is wrong with a label, given the number of classes; 0 classes means unknown.
func badLabel(label int64, classes int) (flaw, bool) {
	limit := int64(classes)
	if classes == 0 {
		limit = math.MaxInt32 + 1
	}
	if label >= 0 && label < limit {
		return flaw{}, false
	}
	f := flaw{status: StatusLabelRange, found: fmt.Sprintf("label %d, wanted 0 to %d", label, limit-1)}
	switch {
	case label < 0:
		f.remedy = "store null for unlabelled rows and class numbers from 0 for the others"
	case label == limit && classes > 0:
		f.remedy = "correct the label (do class numbers start at 1? they must start at 0), or num_classes"
	default:
		f.remedy = "correct the label, or num_classes"
	}
	return f, true
}

// badNumber finds the first NaN or infinity in x.
func badNumber(x []float32) (flaw, bool) {
	for i, v := range x {
		if v-v == 0 { // false for NaN and infinities alone
			continue
		}
		const remedy = "correct the row, or set bad_rows: keep to pass over it"
		if v != v {
			return flaw{StatusNaN, fmt.Sprintf("NaN at position %d of x", i), remedy}, true
		}
		return flaw{StatusInfinite, fmt.Sprintf("infinity (or a number beyond float32) at position %d of x", i), remedy}, true
	}
	return flaw{}, false
}
