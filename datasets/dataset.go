package datasets

import (
	"context"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/jempipe/jempipe/internal/fault"
)

// Info describes a data set. It is known before the first row is read.
type Info struct {
	Name     string
	Rows     int64    // rows that a Reader gives, after skip and limit; at least 1
	Shape    []int    // shape of one sample, row-major; every dimension is at least 1
	Labelled bool     // whether the source has labels; single rows may still be unlabelled
	Classes  []string // class names in index order; nil where the entry does not say
	Float    bool     // x is float32, else uint8
	Lo, Hi   float64  // range of raw values; both 0 where it is not known
	StringID bool     // sample_id is text, else int64
}

// Width is the number of values of one sample, the product of Shape.
func (i Info) Width() int {
	n := 1
	for _, d := range i.Shape {
		n *= d
	}
	return n
}

// Dataset is an opened entry: its headers and schema have been checked, its rows not yet. It is safe for concurrent use.
type Dataset interface {
	Info() Info
	// Files lists the files whose content decides the rows, in the order read; empty for built-in data.
	Files() []string
	// Open starts a pass over the rows. Batches are cut at multiples of batchRows, counted from the first row after
	// skip; the last may be short. Where batchRows rows exceed 64 MiB, batches have as many rows as fit, at least one.
	Open(ctx context.Context, batchRows int) (Reader, error)
}

// Reader is one pass over a data set. It is for one goroutine.
type Reader interface {
	// Next gives the next record, which the caller releases, or io.EOF. Errors in the data are fault.Data errors that
	// name file, row group, row and column; after an error Next returns it again.
	Next() (arrow.Record, error)
	Close() error
}

// maxBatchBytes bounds the sample values of one record.
const maxBatchBytes = 64 << 20

// stream is what a source gives: rows in order, from the first.
type stream interface {
	read(t *table, n int) error // append n rows; the caller never asks for more than there are
	skip(n int64) error         // pass over n rows
	end() error                 // check that nothing is left behind the last row
	Close() error
}

// dataset is every Dataset of this package: a description and a way to start a stream.
type dataset struct {
	info  Info
	files []string
	keep  bool  // bad rows stay
	total int64 // rows of the stream, before skip and limit
	first int64 // rows to pass over
	mem   memory.Allocator
	start func(ctx context.Context) (stream, error)
}

func (d *dataset) Info() Info { return d.info }

func (d *dataset) Files() []string { return d.files }

func (d *dataset) Open(ctx context.Context, batchRows int) (Reader, error) {
	if batchRows < 1 {
		return nil, fault.New(fault.Internal, "data set "+d.info.Name, "batches of %d rows, wanted at least 1", batchRows)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := d.start(ctx)
	if err != nil {
		return nil, err
	}
	return &reader{
		ctx: ctx, d: d, s: s, t: newTable(d.info, d.keep, d.mem),
		size: min(batchRows, d.fit()), pass: d.first, left: d.info.Rows,
	}, nil
}

// fit is the number of rows that stay under maxBatchBytes.
func (d *dataset) fit() int {
	bytes := d.info.Width()
	if d.info.Float {
		bytes *= 4
	}
	return max(1, maxBatchBytes/bytes)
}

type reader struct {
	ctx  context.Context
	d    *dataset
	s    stream
	t    *table
	size int   // rows of a full batch
	pass int64 // rows still to pass over
	left int64 // rows still to give
	err  error
}

func (r *reader) Next() (arrow.Record, error) {
	if r.err == nil {
		r.err = r.ctx.Err()
	}
	if r.err != nil {
		return nil, r.err
	}
	rec, err := r.next()
	r.err = err
	return rec, err
}

func (r *reader) next() (arrow.Record, error) {
	if r.pass > 0 {
		n := r.pass
		r.pass = 0
		if err := r.s.skip(n); err != nil {
			return nil, err
		}
	}
	if r.left == 0 {
		if r.d.first+r.d.info.Rows == r.d.total {
			if err := r.s.end(); err != nil {
				return nil, err
			}
		}
		return nil, io.EOF
	}
	n := int(min(int64(r.size), r.left))
	r.t.reset(n)
	if err := r.s.read(r.t, n); err != nil {
		return nil, err
	}
	r.left -= int64(n)
	return r.t.record(), nil
}

func (r *reader) Close() error {
	if r.s == nil {
		return nil
	}
	err := r.s.Close()
	r.s, r.err = nil, io.ErrClosedPipe
	r.t.free()
	return err
}
