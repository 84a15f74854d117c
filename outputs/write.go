package outputs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/jempipe/jempipe/internal/fault"
)

// A row group and a page end at whichever comes first. These bounds look at the rows alone, never at how they are
// handed to Write, so that the same rows give the same bytes. The library ends a page by itself, after a call that
// made its buffer exceed pageBuffer; pages that keep to maxPageBytes of values stay below that with their levels.
const (
	maxGroupRows  = 64 << 10
	maxGroupBytes = 32 << 20 // of a row's values, all columns together
	maxPageRows   = 16 << 10
	maxPageBytes  = 512 << 10 // of one column's values
	pageBuffer    = 1 << 20
)

// Writer writes one table to one Parquet file. It is not safe for concurrent use.
type Writer[T any] struct {
	path    string
	file    *os.File
	out     *parquet.GenericWriter[T]
	columns []column
	rows    int64 // written so far
	group   span  // the open row group
	page    span  // the open page of every column
	err     error // the first failure; everything after it is refused
	closed  bool
}

// span counts what a row group or a page holds.
type span struct{ rows, bytes int }

// Create starts a table of rows T at path, whose folder is made where it is missing; the file is complete when Close has returned nil. Pages are version 1 and
// zstd: the pair that every reader of the last ten years knows. meta is usually Meta.Map().
func Create[T any](path string, meta map[string]string) (*Writer[T], error) {
	model := reflect.TypeFor[T]()
	schema := schemaOf(model)
	options := []parquet.WriterOption{
		schema,
		parquet.CreatedBy("jempipe", SchemaVersion, "parquet-go"),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault, Concurrency: 1}),
		parquet.DataPageVersion(1),
		parquet.PageBufferSize(pageBuffer),
		parquet.DefaultEncodingFor(parquet.ByteArray, &parquet.Plain),
	}
	for key, value := range meta {
		options = append(options, parquet.KeyValueMetadata(key, value)) // the library sorts them
	}
	if schema.Name() == "predictions" {
		types, err := arrowSchema(schema, "dataset", meta)
		if err != nil {
			return nil, fault.New(fault.Internal, path, "Arrow schema").Because(err)
		}
		options = append(options, parquet.KeyValueMetadata(arrowSchemaKey, types))
	}
	for _, leaf := range schema.Columns() {
		if len(leaf) > 1 { // the smallest element of a page of lists tells a reader nothing and can be long
			options = append(options, parquet.SkipPageBounds(leaf...), parquet.SkipPageStatistics(leaf...))
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, unwritable(path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, unwritable(path, err)
	}
	return &Writer[T]{path: path, file: file, out: parquet.NewGenericWriter[T](file, options...), columns: columnsOf(model)}, nil
}

// Write adds rows. It refuses NaN, naming the column and the row: what is undefined is null in a table. After an error
// nothing more is written, and Close gives the same error.
func (w *Writer[T]) Write(rows []T) (err error) {
	if w.err == nil && w.closed {
		w.err = fault.New(fault.Internal, w.path, "write after close")
	}
	if w.err != nil {
		return w.err
	}
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, w.path, "Parquet writer: %v", p)
		}
		w.err = err
	}()
	from := 0
	for i := range rows {
		size, err := w.measure(&rows[i], w.rows+int64(i))
		if err != nil {
			return err
		}
		if w.full(size) {
			if err := w.cut(rows[from:i], size); err != nil {
				return err
			}
			from = i
		}
		w.add(size)
	}
	if err := w.push(rows[from:]); err != nil {
		return err
	}
	w.rows += int64(len(rows))
	return nil
}

// full says whether the measured row no longer fits the open page or row group.
func (w *Writer[T]) full(size int) bool {
	if w.page.rows == 0 {
		return false
	}
	if w.page.rows == maxPageRows || w.groupFull(size) {
		return true
	}
	for i := range w.columns {
		if w.columns[i].page+w.columns[i].size > maxPageBytes {
			return true
		}
	}
	return false
}

func (w *Writer[T]) groupFull(size int) bool {
	return w.group.rows == maxGroupRows || w.group.bytes+size > maxGroupBytes
}

// cut ends the page after rows, and the row group with it when that is full.
func (w *Writer[T]) cut(rows []T, size int) error {
	if err := w.push(rows); err != nil {
		return err
	}
	if w.groupFull(size) {
		if err := w.out.Flush(); err != nil {
			return unwritable(w.path, err)
		}
		w.group = span{}
	} else {
		for _, c := range w.out.ColumnWriters() {
			if err := c.Flush(); err != nil {
				return unwritable(w.path, err)
			}
		}
	}
	w.page = span{}
	for i := range w.columns {
		w.columns[i].page = 0
	}
	return nil
}

// add counts the measured row.
func (w *Writer[T]) add(size int) {
	w.page.rows++
	w.page.bytes += size
	w.group.rows++
	w.group.bytes += size
	for i := range w.columns {
		w.columns[i].page += w.columns[i].size
	}
}

func (w *Writer[T]) push(rows []T) error {
	if len(rows) == 0 {
		return nil
	}
	n, err := w.out.Write(rows)
	if err != nil {
		return unwritable(w.path, err)
	}
	if n != len(rows) {
		return fault.New(fault.Internal, w.path, "%d of %d rows written", n, len(rows))
	}
	return nil
}

// Rows is the number of rows written so far.
func (w *Writer[T]) Rows() int64 { return w.rows }

// Close writes the footer and syncs the file to disk. After a failed Write it removes the file and gives that error.
// A second Close does nothing and gives the same result.
func (w *Writer[T]) Close() (err error) {
	if w.closed {
		return w.err
	}
	w.closed = true
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, w.path, "Parquet writer: %v", p)
		}
		if err != nil {
			w.file.Close()
			os.Remove(w.path)
		}
		w.err = err
	}()
	if w.err != nil {
		return w.err
	}
	if err := errors.Join(w.out.Close(), w.file.Sync()); err != nil {
		return unwritable(w.path, err)
	}
	if err := w.file.Close(); err != nil {
		return unwritable(w.path, err)
	}
	return nil
}

// WriteAll writes a whole table at once.
func WriteAll[T any](path string, meta map[string]string, rows []T) error {
	w, err := Create[T](path, meta)
	if err != nil {
		return err
	}
	return errors.Join(w.Write(rows), w.Close())
}

// column is one field of a row, with what is needed to measure and check it.
type column struct {
	name   string
	offset uintptr // of the field in the row
	kind   reflect.Type
	size   int // bytes of the value measured last
	page   int // bytes of the values in the open page
}

func columnsOf(model reflect.Type) []column {
	columns := make([]column, model.NumField())
	for i := range columns {
		f := model.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		columns[i] = column{name: name, offset: f.Offset, kind: f.Type}
	}
	return columns
}

// Kinds of fields that measure looks into.
var (
	number    = reflect.TypeFor[float64]()
	maybe     = reflect.TypeFor[*float64]()
	list      = reflect.TypeFor[[]float32]()
	text      = reflect.TypeFor[string]()
	maybeText = reflect.TypeFor[*string]()
)

// measure gives the size of a row's values in bytes, and leaves that of each in its column. It fails at a NaN. Fields
// are read by their offset: with reflect.Value this would take as long as the writing.
func (w *Writer[T]) measure(row *T, at int64) (size int, err error) {
	for i := range w.columns {
		c := &w.columns[i]
		field := unsafe.Add(unsafe.Pointer(row), c.offset)
		nan := false
		c.size = 8
		switch c.kind {
		case maybe:
			p := *(**float64)(field)
			nan = p != nil && math.IsNaN(*p)
		case number:
			nan = math.IsNaN(*(*float64)(field))
		case list:
			values := *(*[]float32)(field)
			c.size = 4 * len(values)
			nan = hasNaN(values)
		case text:
			c.size = len(*(*string)(field))
		case maybeText:
			if p := *(**string)(field); p != nil {
				c.size = len(*p)
			}
		}
		if nan {
			return 0, fault.New(fault.Internal, fmt.Sprintf("%s: row %d, column %s", w.path, at, c.name),
				"NaN, wanted a number or null")
		}
		size += c.size
	}
	return size, nil
}

func hasNaN(list []float32) bool {
	for _, x := range list {
		if x != x {
			return true
		}
	}
	return false
}

func unwritable(path string, err error) error {
	return fault.New(fault.Internal, path, "cannot be written").Because(err).
		Do("check that the output folder exists, is writable and has free space")
}
