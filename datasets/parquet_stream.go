package datasets

import (
	"context"
	"errors"
	"math"
	"unicode/utf8"
)

// parquetStream reads the files one after another, row group by row group, holding one page of each column.
type parquetStream struct {
	ctx  context.Context
	set  *parquetSet
	next int   // next file
	row  int64 // next row of all files

	file  *parquetFile
	rows  int64 // rows of the file before the current row group
	group int
	left  int64 // rows of the row group still to read
	at    place // where reading stands, for errors

	x     *listCursor
	label *scalarCursor
	id    *scalarCursor
	open  []openColumn // the three, as far as they are there
	seen  idSet
}

type openColumn struct {
	name string
	*pages
}

func (s *parquetStream) read(t *table, n int) error {
	return s.each(int64(n), func() error { return s.readRow(t) })
}

func (s *parquetStream) skip(n int64) error {
	for s.file == nil && s.next < len(s.set.files) && n >= s.set.rows[s.next] { // whole files, unopened
		n -= s.set.rows[s.next]
		s.row += s.set.rows[s.next]
		s.next++
	}
	return s.each(n, func() error {
		_, err := s.skipRow()
		return err
	})
}

// each does something for each of the next n rows.
func (s *parquetStream) each(n int64, do func() error) error {
	return guard(func() place { return s.at }, func() error {
		for n > 0 {
			if s.left == 0 {
				if err := s.advance(); err != nil {
					return err
				}
				continue
			}
			if err := do(); err != nil {
				return err
			}
			s.left--
			s.row++
			s.at.row++
			n--
		}
		return nil
	})
}

// advance moves to the next row group, or to the first one of the next file.
func (s *parquetStream) advance() error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if err := s.finishGroup(); err != nil {
		return err
	}
	if s.file != nil {
		s.rows += s.file.parquet.RowGroups()[s.group].NumRows()
		s.group++
	}
	for s.file == nil || s.group == len(s.file.parquet.RowGroups()) {
		if err := s.nextFile(); err != nil {
			return err
		}
	}
	return s.openGroup()
}

func (s *parquetStream) nextFile() error {
	s.closeFile()
	const remedy = "do not change files during a run; run again"
	if s.next == len(s.set.files) {
		return inFile(s.at.file).errorf("fewer rows than when it was first opened").Do(remedy)
	}
	path := s.set.files[s.next]
	s.at = inFile(path)
	file, err := openParquet(path, s.set.spec)
	if err != nil {
		return err
	}
	if want := s.set.rows[s.next]; file.rows() != want {
		file.Close()
		return s.at.errorf("%d rows, %d when it was first opened", file.rows(), want).Do(remedy)
	}
	s.file, s.group, s.rows = file, 0, 0
	s.next++
	return nil
}

func (s *parquetStream) openGroup() error {
	s.left = s.file.parquet.RowGroups()[s.group].NumRows()
	s.at = place{file: s.file.path, group: s.group, row: s.rows}
	if s.left == 0 {
		return nil
	}
	cols := s.file.cols
	chunk, err := s.file.chunk(s.group, cols.x.leaf)
	if err != nil {
		return err
	}
	s.x = newListCursor(chunk, cols.x, s.set.width, s.set.why)
	s.open = append(s.open, openColumn{cols.x.leaf.Path()[0], &s.x.pages})
	if cols.label != nil {
		if chunk, err = s.file.chunk(s.group, cols.label); err != nil {
			return err
		}
		s.label = newScalarCursor(chunk, cols.label)
		s.open = append(s.open, openColumn{cols.label.Name(), &s.label.pages})
	}
	if cols.id != nil {
		if chunk, err = s.file.chunk(s.group, cols.id); err != nil {
			return err
		}
		s.id = newScalarCursor(chunk, cols.id)
		s.open = append(s.open, openColumn{cols.id.Name(), &s.id.pages})
	}
	return nil
}

// finishGroup checks that no column goes on behind the last row of its row group.
func (s *parquetStream) finishGroup() error {
	for _, c := range s.open {
		s.at.column = c.name
		more, err := c.more()
		if err == nil && more {
			err = errors.New("the column has more rows than the footer says")
		}
		if err != nil {
			return s.broken(err)
		}
	}
	s.closeGroup()
	return nil
}

// broken is an error of the file's structure where reading stands.
func (s *parquetStream) broken(err error) error { return damaged(s.at).Because(cause(err)) }

// in sets the column for errors.
func (s *parquetStream) in(c *pages) {
	for _, o := range s.open {
		if o.pages == c {
			s.at.column = o.name
		}
	}
}

func (s *parquetStream) readRow(t *table) error {
	flaws, err := s.readX(t)
	if err != nil {
		return err
	}
	twice, err := s.readID(t)
	if err != nil {
		return err
	}
	flaws = append(flaws, twice...)
	label, labelled := int64(0), false
	if s.label != nil {
		s.in(&s.label.pages)
		if label, labelled, err = s.label.integer(); err != nil {
			return s.broken(err)
		}
		if f, bad := badLabel(label, s.set.classes); labelled && bad {
			flaws = append(flaws, f)
		}
	}
	return t.add(label, labelled, flaws, func(f flaw) place {
		switch f.status {
		case StatusLabelRange:
			s.in(&s.label.pages)
		case StatusDuplicateID:
			s.in(&s.id.pages)
		default:
			s.in(&s.x.pages)
		}
		return s.at
	})
}

func (s *parquetStream) readX(t *table) ([]flaw, error) {
	s.in(&s.x.pages)
	var f []float32
	var b []byte
	if t.info.Float {
		f = t.floatRow()
	} else {
		b = t.byteRow()
	}
	row, err := s.x.next(f, b)
	if err != nil {
		return nil, s.broken(err)
	}
	flaws := s.x.flaws(row)
	if len(flaws) == 0 && f != nil {
		if bad, ok := badNumber(f); ok {
			flaws = []flaw{bad}
		}
	}
	return flaws, nil
}

// readID reads the id of a row. An id that occurred before is a flaw; one that cannot be used is an error, since a row
// without an id cannot be kept.
func (s *parquetStream) readID(t *table) ([]flaw, error) {
	if s.id == nil {
		t.ids = append(t.ids, s.row)
		return nil, nil
	}
	s.in(&s.id.pages)
	if t.info.StringID {
		return s.readText(t)
	}
	id, valid, err := s.id.integer()
	switch {
	case err != nil || !valid:
		return nil, s.noID(err)
	case id < 0 && s.id.unsigned:
		return nil, s.at.errorf("%d, wanted at most %d", uint64(id), int64(math.MaxInt64)).Do("store ids as int64 or text")
	}
	t.ids = append(t.ids, id)
	if !s.seen.add(intKey(id)) {
		return []flaw{duplicate(id)}, nil
	}
	return nil, nil
}

func (s *parquetStream) readText(t *table) ([]flaw, error) {
	text, valid, err := s.id.string()
	switch {
	case err != nil || !valid:
		return nil, s.noID(err)
	case !utf8.ValidString(text):
		return nil, s.at.errorf("%q is not UTF-8 text", text).Do("store ids as UTF-8 text or integers")
	}
	t.texts = append(t.texts, text)
	if !s.seen.add(textKey(text)) {
		return []flaw{duplicate(text)}, nil
	}
	return nil, nil
}

func (s *parquetStream) noID(err error) error {
	if err != nil {
		return s.broken(err)
	}
	return s.at.errorf("null, wanted an id: rows are told apart by it").Do("give every row an id")
}

// skipRow passes over a row and tells what its list is like.
func (s *parquetStream) skipRow() (listRow, error) {
	s.in(&s.x.pages)
	row, err := s.x.next(nil, nil)
	if err != nil {
		return row, s.broken(err)
	}
	for _, c := range []*scalarCursor{s.label, s.id} {
		if c == nil {
			continue
		}
		s.in(&c.pages)
		if err := c.pass(); err != nil {
			return row, s.broken(err)
		}
	}
	return row, nil
}

// firstLength is the length of the first list that is there and not empty; 0 for none in the first file with rows.
func (s *parquetStream) firstLength() (int, error) {
	length, rows := 0, int64(0)
	for i := 0; rows == 0; i++ {
		rows = s.set.rows[i]
	}
	for ; rows > 0 && length == 0; rows-- {
		err := s.each(1, func() error {
			row, err := s.skipRow()
			length = row.n
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return length, nil
}

func (s *parquetStream) end() error {
	return guard(func() place { return s.at }, s.finishGroup)
}

func (s *parquetStream) closeGroup() {
	for _, c := range s.open {
		c.Close()
	}
	s.x, s.label, s.id, s.open = nil, nil, nil, s.open[:0]
}

func (s *parquetStream) closeFile() {
	if file := s.file; file != nil {
		defer file.Close()
		s.file = nil
		s.closeGroup()
	}
}

// Close is guarded because a page may be in no state to be released after a panic.
func (s *parquetStream) Close() error {
	return guard(func() place { return s.at }, func() error {
		s.closeFile()
		return nil
	})
}
