package datasets

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
)

// errShort says that a column chunk has fewer rows than its row group.
var errShort = errors.New("the column has fewer rows than the footer says")

// listCursor reads the rows of a list column within one row group.
type listCursor struct {
	pages
	col    listColumn
	width  int    // values wanted in each row
	why    string // where the wanted width comes from
	floats decoder[float32]
	bytes  decoder[byte]
}

func newListCursor(chunk parquet.ColumnChunk, col listColumn, width int, why string) *listCursor {
	return &listCursor{
		pages: pages{source: chunk.Pages()}, col: col, width: width, why: why,
		floats: decoder[float32]{cast: toFloats(col.unsigned)}, bytes: decoder[byte]{cast: toBytes},
	}
}

// listRow is what was found in a row.
type listRow struct {
	n      int  // length of the list
	absent bool // the list itself is null
	hole   int  // position of the first null value; -1 for none
}

// next reads a row and puts its first values where they are wanted: into f or b, or nowhere where both are nil. A row may
// go on in the next page.
func (c *listCursor) next(f []float32, b []byte) (listRow, error) {
	row := listRow{hole: -1}
	if ok, err := c.more(); !ok {
		return row, orShort(err)
	}
	if c.rep[c.pos] != 0 {
		return row, errors.New("the column starts in the middle of a row")
	}
	for {
		end := c.levels
		if i := bytes.IndexByte(c.rep[c.pos+1:], 0); i >= 0 {
			end = c.pos + 1 + i
		}
		if err := c.run(&row, c.def[c.pos:end], f, b); err != nil {
			return row, err
		}
		if c.pos = end; end < c.levels {
			return row, nil
		}
		if ok, err := c.load(); !ok || c.rep[0] == 0 {
			return row, err
		}
	}
}

// run takes the entries of a row that lie in the current page.
func (c *listCursor) run(row *listRow, def []byte, f []float32, b []byte) error {
	whole := []byte{c.col.max}
	if bytes.Count(def, whole) == len(def) {
		return c.take(row, len(def), f, b)
	}
	for _, d := range def {
		switch {
		case d == c.col.max:
			if err := c.take(row, 1, f, b); err != nil {
				return err
			}
		case d >= c.col.repeated:
			if row.hole < 0 {
				row.hole = row.n
			}
			row.n++
		case d < c.col.present:
			row.absent = true
		}
	}
	return nil
}

// take takes the next n values.
func (c *listCursor) take(row *listRow, n int, f []float32, b []byte) error {
	var err error
	from, to := min(row.n, c.width), min(row.n+n, c.width)
	switch {
	case f != nil:
		err = c.floats.next(&c.pages, f[from:to])
	case b != nil:
		err = c.bytes.next(&c.pages, b[from:to])
	}
	row.n += n
	c.val += n
	return err
}

// flaws says what is wrong with a row.
func (c *listCursor) flaws(row listRow) []flaw {
	const remedy = ", or set bad_rows: keep to pass over it"
	switch {
	case row.absent:
		return []flaw{{StatusNullX, "x is null", "give the row its values" + remedy}}
	case row.n != c.width:
		return []flaw{{StatusWrongLength, fmt.Sprintf("list of %d values, wanted %d (%s)", row.n, c.width, c.why), "correct the row" + remedy}}
	case row.hole >= 0:
		return []flaw{{StatusNullValue, fmt.Sprintf("null at position %d of x", row.hole), "give the row its values" + remedy}}
	}
	return nil
}

func orShort(err error) error {
	if err == nil {
		return errShort
	}
	return err
}

// scalarCursor reads the rows of a column of integers or text within one row group.
type scalarCursor struct {
	pages
	max      byte // definition level of a value; 0 where nulls are not allowed
	unsigned bool
	ints     decoder[int64]
	one      [1]int64
}

func newScalarCursor(chunk parquet.ColumnChunk, col *parquet.Column) *scalarCursor {
	t := intType(col)
	unsigned := t != nil && !t.IsSigned
	return &scalarCursor{
		pages: pages{source: chunk.Pages()}, max: byte(col.MaxDefinitionLevel()), unsigned: unsigned,
		ints: decoder[int64]{cast: toInts(unsigned)},
	}
}

// step moves to the next row and tells whether it has a value, which the caller then takes.
func (c *scalarCursor) step() (bool, error) {
	if ok, err := c.more(); !ok {
		return false, orShort(err)
	}
	valid := c.max == 0 || c.def[c.pos] == c.max
	c.pos++
	return valid, nil
}

// integer reads a row; false for null.
func (c *scalarCursor) integer() (int64, bool, error) {
	valid, err := c.step()
	if err != nil || !valid {
		return 0, false, err
	}
	err = c.ints.next(&c.pages, c.one[:])
	c.val++
	return c.one[0], true, err
}

// string reads a row; false for null.
func (c *scalarCursor) string() (string, bool, error) {
	valid, err := c.step()
	if err != nil || !valid {
		return "", false, err
	}
	s, err := c.text()
	c.val++
	return s, true, err
}

// pass passes over a row.
func (c *scalarCursor) pass() error {
	valid, err := c.step()
	if valid {
		c.val++
	}
	return err
}
