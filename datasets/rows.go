package datasets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/jempipe/jempipe/internal/fault"
)

// Rows holds rows as plain slices of equal length; X has the values of all rows one after another.
type Rows struct {
	IDs       []int64  // empty where ids are text
	IDStrings []string // empty where ids are integers
	Labels    []int32  // 0 where HasLabel is false
	HasLabel  []bool
	X         []float32 // raw values, row-major, len = rows x width
	Status    []string  // StatusOK or what is wrong
	Reason    []string  // "" where the row is good
}

// Len is the number of rows.
func (r *Rows) Len() int { return len(r.Status) }

// ID is the id of row i as text.
func (r *Rows) ID(i int) string {
	if len(r.IDStrings) > 0 {
		return r.IDStrings[i]
	}
	return fmt.Sprint(r.IDs[i])
}

func (r *Rows) reset() {
	r.IDs, r.IDStrings = r.IDs[:0], r.IDStrings[:0]
	r.Labels, r.HasLabel = r.Labels[:0], r.HasLabel[:0]
	r.X, r.Status, r.Reason = r.X[:0], r.Status[:0], r.Reason[:0]
}

// Decode replaces the content of into with the rows of a record of this package's Schema, reusing its capacity. The
// result shares no memory with the record.
func Decode(rec arrow.Record, into *Rows) error {
	into.reset()
	return into.append(rec)
}

func (r *Rows) append(rec arrow.Record) error {
	if rec.NumCols() <= colReason {
		return fault.New(fault.Internal, "", "record with %d columns, wanted the %d columns of a data set", rec.NumCols(), colReason+1)
	}
	labels, ok1 := rec.Column(colLabel).(*array.Int32)
	status, ok2 := rec.Column(colStatus).(*array.String)
	reason, ok3 := rec.Column(colReason).(*array.String)
	x, ok4 := rec.Column(colX).(*array.FixedSizeList)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return fault.New(fault.Internal, "", "record with schema %s, wanted the columns of a data set", rec.Schema())
	}
	switch ids := rec.Column(colID).(type) {
	case *array.Int64:
		r.IDs = append(r.IDs, ids.Int64Values()...)
	case *array.String:
		r.IDStrings = appendText(r.IDStrings, ids)
	default:
		return fault.New(fault.Internal, "", "sample_id of type %s, wanted int64 or utf8", ids.DataType())
	}
	n := int(rec.NumRows())
	for i := range n {
		valid := labels.IsValid(i)
		r.HasLabel = append(r.HasLabel, valid)
		if valid {
			r.Labels = append(r.Labels, labels.Value(i))
		} else {
			r.Labels = append(r.Labels, 0)
		}
	}
	r.Status = appendText(r.Status, status)
	r.Reason = appendText(r.Reason, reason)
	return r.appendX(x, n)
}

func (r *Rows) appendX(x *array.FixedSizeList, n int) error {
	if n == 0 {
		return nil
	}
	from, _ := x.ValueOffsets(0)
	_, to := x.ValueOffsets(n - 1)
	switch values := x.ListValues().(type) {
	case *array.Float32:
		r.X = append(r.X, values.Float32Values()[from:to]...)
	case *array.Uint8:
		at := len(r.X)
		r.X = append(r.X, make([]float32, to-from)...)
		for i, v := range values.Uint8Values()[from:to] {
			r.X[at+i] = float32(v)
		}
	default:
		return fault.New(fault.Internal, "", "x of type %s, wanted float32 or uint8", values.DataType())
	}
	return nil
}

// appendText copies strings out of Arrow's memory; nulls become "".
func appendText(to []string, from *array.String) []string {
	for i := range from.Len() {
		switch {
		case from.IsNull(i):
			to = append(to, "")
		case from.Value(i) == StatusOK:
			to = append(to, StatusOK) // the usual status, without an allocation
		default:
			to = append(to, strings.Clone(from.Value(i)))
		}
	}
	return to
}

// ReadAll reads every row of a data set. It is an error when the values alone, as float32, exceed maxBytes.
func ReadAll(ctx context.Context, d Dataset, maxBytes int64) (*Rows, error) {
	info := d.Info()
	if need := info.Rows * int64(info.Width()) * 4; need > maxBytes || need/4/int64(info.Width()) != info.Rows {
		return nil, fault.New(fault.Data, "data set "+info.Name, "%d rows of %d values need %.1f MB in memory, the limit is %.1f MB",
			info.Rows, info.Width(), float64(info.Rows)*float64(info.Width())*4e-6, float64(maxBytes)*1e-6).
			Do("raise the limit, or take fewer rows with `limit`")
	}
	r, err := d.Open(ctx, 1024)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	rows := &Rows{X: make([]float32, 0, int(info.Rows)*info.Width())}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		err = rows.append(rec)
		rec.Release()
		if err != nil {
			return nil, err
		}
	}
}

// Append adds the first n rows of another, whose samples have width values.
func (r *Rows) Append(o *Rows, n, width int) {
	r.IDs = append(r.IDs, o.IDs[:min(n, len(o.IDs))]...)
	r.IDStrings = append(r.IDStrings, o.IDStrings[:min(n, len(o.IDStrings))]...)
	r.Labels, r.HasLabel = append(r.Labels, o.Labels[:n]...), append(r.HasLabel, o.HasLabel[:n]...)
	r.Status, r.Reason = append(r.Status, o.Status[:n]...), append(r.Reason, o.Reason[:n]...)
	r.X = append(r.X, o.X[:n*width]...)
}
