package datasets

import (
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/jempipe/jempipe/internal/fault"
)

// parquetColumns are the columns that a Spec asks for, in the schema of one file. label and id are nil where absent.
type parquetColumns struct {
	x     listColumn
	label *parquet.Column
	id    *parquet.Column
}

// listColumn is a list of numbers. A value of its leaf has definition level max; levels below that are a null among the
// values (from repeated), an empty list (from present) or no list at all.
type listColumn struct {
	leaf                   *parquet.Column
	present, repeated, max byte
	unsigned               bool // values are unsigned integers
	bytes                  bool // values are uint8
}

func (c parquetColumns) stringID() bool {
	return c.id != nil && c.id.Type().Kind() == parquet.ByteArray
}

// findColumns compares the schema of a file with what the Spec asks for.
func findColumns(path string, root *parquet.Column, spec Spec) (c parquetColumns, err error) {
	col, err := findColumn(path, root, spec.X, spec.X, "x")
	if err != nil {
		return c, err
	}
	if c.x, err = asList(path, col); err != nil {
		return c, err
	}
	if c.label, err = findColumn(path, root, spec.Label, "label", "label"); err != nil {
		return c, err
	}
	if c.label != nil && (c.label.Repeated() || !isInteger(c.label)) {
		return c, place{path, -1, -1, c.label.Name()}.errorf("%s, wanted integers: class numbers from 0", describe(c.label)).
			Do("store each class as its number (in a fixed order of classes), or name another column with `label`")
	}
	if c.id, err = findColumn(path, root, spec.ID, "sample_id", "id"); err != nil {
		return c, err
	}
	if c.id != nil && (c.id.Repeated() || !isInteger(c.id) && !isText(c.id)) {
		return c, place{path, -1, -1, c.id.Name()}.errorf("%s, wanted integers or text", describe(c.id)).
			Do("store ids as int64 or as text, or name another column with `id`")
	}
	return c, nil
}

// findColumn finds the column that the config names, or the usual one, which may be missing (nil).
func findColumn(path string, root *parquet.Column, named, usual, key string) (*parquet.Column, error) {
	name := named
	if name == "" {
		name = usual
	}
	if col := root.Column(name); col != nil || named == "" {
		return col, nil
	}
	var names, there []string
	for _, col := range root.Columns() {
		names = append(names, col.Name())
		there = append(there, col.Name()+" ("+describe(col)+")")
	}
	e := inFile(path).errorf("no column %s%s; it has %s", name, didYouMean(name, names), strings.Join(there, ", "))
	return nil, e.Do("name the column with `%s`", key)
}

// asList accepts the standard three-level list, the older two-level list, both with or without annotation, and a plain
// repeated column (parquet-format, LogicalTypes.md, "Lists" and its backward compatibility rules).
func asList(path string, col *parquet.Column) (listColumn, error) {
	at := place{path, -1, -1, col.Name()}
	list := listColumn{present: byte(col.MaxDefinitionLevel())}
	switch middle := onlyChild(col); {
	case col.Leaf() && col.Repeated():
		list.leaf, list.present, list.repeated = col, 0, 1
	case middle == nil || !middle.Repeated():
		return list, notAList(at, col)
	case middle.Leaf():
		list.leaf, list.repeated = middle, byte(middle.MaxDefinitionLevel())
	default:
		list.leaf, list.repeated = onlyChild(middle), byte(middle.MaxDefinitionLevel())
	}
	switch leaf := list.leaf; {
	case leaf == nil || !leaf.Leaf() && leaf.MaxRepetitionLevel() == 1 && onlyChild(leaf) == nil:
		return list, at.errorf("a list of structs, wanted a list of numbers").Do("store the values as one list of numbers")
	case !leaf.Leaf() || leaf.MaxRepetitionLevel() != 1:
		return list, at.errorf("a list of lists, wanted a list of numbers").Do("flatten each sample row-major into one list, and give its `shape`")
	case !isNumber(leaf):
		return list, at.errorf("a list of %s, wanted a list of numbers", describe(leaf)).Do("store the values as float, double or an integer type")
	}
	list.max = byte(list.leaf.MaxDefinitionLevel())
	if t := intType(list.leaf); t != nil {
		list.unsigned, list.bytes = !t.IsSigned, !t.IsSigned && t.BitWidth == 8
	}
	return list, nil
}

func onlyChild(col *parquet.Column) *parquet.Column {
	if cols := col.Columns(); len(cols) == 1 {
		return cols[0]
	}
	return nil
}

func notAList(at place, col *parquet.Column) *fault.Error {
	e := at.errorf("%s, wanted a list of numbers", describe(col))
	switch {
	case col.Column("bytes") != nil || col.Leaf() && !isNumber(col):
		return e.Do("encoded pictures are not decoded here: store the pixel values of each sample as a list of uint8 or float, row-major")
	case col.Leaf():
		return e.Do("put the values of each sample into one list")
	}
	return e.Do("name a list column with `x`, or store the values of each sample as one list of numbers")
}

func intType(col *parquet.Column) *format.IntType {
	logical := col.Type().LogicalType()
	if logical == nil {
		return nil
	}
	t, _ := logical.Value.(*format.IntType)
	return t
}

// isInteger tells plain integers from decimals, dates and times, which are stored as integers.
func isInteger(col *parquet.Column) bool {
	if !col.Leaf() {
		return false
	}
	kind := col.Type().Kind()
	return (kind == parquet.Int32 || kind == parquet.Int64) && (!annotated(col) || intType(col) != nil)
}

func isNumber(col *parquet.Column) bool {
	if !col.Leaf() {
		return false
	}
	kind := col.Type().Kind()
	return isInteger(col) || (kind == parquet.Float || kind == parquet.Double) && !annotated(col)
}

func isText(col *parquet.Column) bool {
	if !col.Leaf() || col.Type().Kind() != parquet.ByteArray {
		return false
	}
	if !annotated(col) {
		return true
	}
	_, ok := col.Type().LogicalType().Value.(*format.StringType)
	return ok
}

func annotated(col *parquet.Column) bool {
	logical := col.Type().LogicalType()
	return logical != nil && logical.Value != nil
}

// describe names the type of a column in a few words.
func describe(col *parquet.Column) string {
	if col.Leaf() {
		name := col.Type().String()
		if isText(col) {
			name = "text"
		}
		if col.Repeated() {
			return "repeated " + name
		}
		return name
	}
	if middle := onlyChild(col); middle != nil && middle.Repeated() {
		if middle.Leaf() {
			return "list of " + middle.Type().String()
		}
		if leaf := onlyChild(middle); leaf != nil {
			return "list of " + describe(leaf)
		}
	}
	var names []string
	for _, c := range col.Columns() {
		names = append(names, c.Name())
	}
	return fmt.Sprintf("struct of %s", strings.Join(names, " and "))
}
