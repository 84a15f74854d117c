package outputs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/jempipe/jempipe/internal/fault"
)

// FileInfo is what Inspect tells of a Parquet file.
type FileInfo struct {
	Schema    string // as Parquet prints it
	Rows      int64
	RowGroups int
	Meta      []KeyValue // in order of their keys
	Columns   []string   // leaf columns, path elements joined by dots, without the inner elements of lists
	Head      [][]string // the first rows: a text for each column; null is "null", a list is [a, b, ...]
}

// KeyValue is one entry of a file's metadata.
type KeyValue struct{ Key, Value string }

// Inspect describes any Parquet file, with its first rows. A damaged file gives fault.Data.
func Inspect(path string, head int) (info FileInfo, err error) {
	defer recovered(path, &err)
	f, err := os.Open(path)
	if err != nil {
		return info, unreadable(path, err)
	}
	defer f.Close()
	file, err := open(f, path)
	if err != nil {
		return info, err
	}
	info = FileInfo{Schema: file.Schema().String(), Rows: file.NumRows(), RowGroups: len(file.RowGroups())}
	for _, pair := range file.Metadata().KeyValueMetadata {
		info.Meta = append(info.Meta, KeyValue{pair.Key, pair.Value})
	}
	slices.SortFunc(info.Meta, func(a, b KeyValue) int { return strings.Compare(a.Key, b.Key) })
	for _, column := range file.Schema().Columns() {
		name := strings.Join(column, ".")
		name = strings.TrimSuffix(strings.TrimSuffix(name, ".list.element"), ".list.item")
		info.Columns = append(info.Columns, name)
	}
	if info.Head, err = readHead(file, min(int64(head), info.Rows)); err != nil {
		err = unreadable(path, err)
	}
	return info, err
}

func readHead(file *parquet.File, n int64) (out [][]string, err error) {
	for _, group := range file.RowGroups() {
		rows := group.Rows()
		defer closeQuietly(rows)
		for int64(len(out)) < n {
			batch := make([]parquet.Row, 1)
			got, err := rows.ReadRows(batch)
			if got == 1 {
				out = append(out, rowText(batch[0], len(file.Schema().Columns())))
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return out, err
			}
			if got == 0 || err != nil {
				break
			}
		}
	}
	return out, nil
}

// shown is how many values of a list are written out.
const shown = 6

func rowText(row parquet.Row, columns int) []string {
	out := make([]string, columns)
	row.Range(func(at int, values []parquet.Value) bool {
		list := len(values) > 1 || len(values) == 1 && values[0].DefinitionLevel() > 1
		var texts []string
		for i, v := range values {
			if i == shown && len(values) > shown+1 {
				texts = append(texts, fmt.Sprintf("... %d values", len(values)))
				break
			}
			if v.IsNull() {
				texts = append(texts, "null")
			} else {
				texts = append(texts, v.String())
			}
		}
		out[at] = strings.Join(texts, ", ")
		if list {
			out[at] = "[" + out[at] + "]"
		}
		return true
	})
	return out
}

// HasStringID says whether the predictions in a file have text ids, as against integers.
func HasStringID(path string) (text bool, err error) {
	defer recovered(path, &err)
	f, err := os.Open(path)
	if err != nil {
		return false, unreadable(path, err)
	}
	defer f.Close()
	file, err := open(f, path)
	if err != nil {
		return false, err
	}
	id := fieldNamed(file.Schema(), "sample_id")
	if id == nil || !id.Leaf() {
		return false, fault.New(fault.Data, path, "no column sample_id").Do("run the stage that wrote it again")
	}
	return id.Type().Kind() == parquet.ByteArray, nil
}
