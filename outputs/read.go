package outputs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/jempipe/jempipe/internal/fault"
)

// readRows is the number of rows handed to a reader's function at once.
const readRows = 4096

// Read streams a table through fn, in batches of some thousand rows in file order. The file must have every column of
// T with its type and nullability; further columns are ignored. The slice is reused after fn has returned; what its
// rows point to is not. Damaged files, another schema and a row count that differs from the footer's give fault.Data.
func Read[T any](path string, fn func(rows []T) error) error {
	f, err := os.Open(path)
	if err != nil {
		return unreadable(path, err)
	}
	defer f.Close()
	r, want, err := reader[T](f, path)
	if err != nil {
		return err
	}
	defer closeQuietly(r)
	batch := make([]T, min(readRows, max(1, want)))
	var got int64
	for {
		clear(batch)
		n, err := readBatch(r, batch, path)
		got += int64(n)
		if n > 0 {
			if err := fn(batch[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if got != want {
		return fault.New(fault.Data, path, "%d rows read, the footer says %d", got, want).Do("write the file again")
	}
	return nil
}

// ReadAll reads a whole table. It is meant for the small ones.
func ReadAll[T any](path string) ([]T, error) {
	var all []T
	err := Read(path, func(rows []T) error {
		all = append(all, rows...)
		return nil
	})
	return all, err
}

// reader opens a file whose schema has been compared with T's, and gives the footer's row count.
func reader[T any](f *os.File, path string) (r *parquet.GenericReader[T], rows int64, err error) {
	defer recovered(path, &err)
	file, err := open(f, path)
	if err != nil {
		return nil, 0, err
	}
	if err := sameColumns(file.Schema(), schemaOf(reflect.TypeFor[T]()), path); err != nil {
		return nil, 0, err
	}
	for i, group := range file.RowGroups() {
		for _, chunk := range group.ColumnChunks() {
			if chunk.NumValues() < 0 || group.NumRows() < 0 {
				return nil, 0, fault.New(fault.Data, fmt.Sprintf("%s: row group %d", path, i), "negative row count")
			}
		}
	}
	return parquet.NewGenericReader[T](file), file.NumRows(), nil
}

// readBatch reads up to len(batch) rows. It may give rows together with io.EOF.
func readBatch[T any](r *parquet.GenericReader[T], batch []T, path string) (n int, err error) {
	defer recovered(path, &err)
	n, err = r.Read(batch)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fault.New(fault.Data, path, "damaged Parquet file").Because(err).Do("write the file again")
	}
	if n == 0 && err == nil {
		return 0, fault.New(fault.Data, path, "the Parquet reader gave neither rows nor an end")
	}
	return n, err
}

// closeQuietly closes a reader; on a damaged file that may panic, and the failure has been told by then.
func closeQuietly(c io.Closer) {
	defer func() { _ = recover() }()
	c.Close()
}

// sameColumns checks that a file has every wanted column, because the library reads a missing one as zeros and
// converts between types silently.
func sameColumns(got, want *parquet.Schema, path string) error {
	for _, leaf := range want.Columns() {
		name := leaf[0]
		wanted := fieldNamed(want, name)
		found := fieldNamed(got, name)
		if found == nil {
			return fault.New(fault.Data, path+": column "+name, "is missing, wanted %s", describe(wanted)).
				Do("give a %s table written by this version of jempipe, schema %s", want.Name(), SchemaVersion)
		}
		if describe(found) != describe(wanted) {
			return fault.New(fault.Data, path+": column "+name, "is %s, wanted %s", describe(found), describe(wanted))
		}
	}
	return nil
}

func fieldNamed(s *parquet.Schema, name string) parquet.Node {
	for _, f := range s.Fields() {
		if f.Name() == name {
			return f
		}
	}
	return nil
}

// describe is a node as its line in a printed schema, without the name.
func describe(n parquet.Node) string {
	var b strings.Builder
	if err := parquet.PrintSchema(&b, "", n); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(strings.TrimSuffix(strings.TrimSpace(b.String()), ";")), " ")
}
