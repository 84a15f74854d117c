package datasets

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// pages steps through the pages of one column chunk and holds one of them at a time. Its levels and values are slices of
// the page's own memory, valid until the next load.
type pages struct {
	source parquet.Pages
	page   parquet.Page
	dict   encoding.Values // values of the dictionary, where the chunk has one
	named  bool            // dict has been read

	rep, def []byte          // levels; empty where the column has none
	index    []int32         // positions in dict, where the page has them
	plain    encoding.Values // values else
	levels   int             // entries of the page: values, nulls and empty lists
	pos      int             // next entry
	val      int             // next value
}

// load moves to the next page that has entries; false at the end of the chunk.
func (p *pages) load() (bool, error) {
	for {
		p.release()
		page, err := p.source.ReadPage()
		if err == io.EOF && page == nil {
			return false, nil
		}
		if err != nil {
			return false, cause(err)
		}
		p.page = page
		if err := p.open(); err != nil || p.levels > 0 {
			return err == nil, err
		}
	}
}

func (p *pages) open() error {
	p.pos, p.val = 0, 0
	p.rep, p.def = p.page.RepetitionLevels(), p.page.DefinitionLevels()
	p.plain, p.index = p.page.Data(), nil
	if dict := p.page.Dictionary(); dict != nil {
		if !p.named {
			p.dict, p.named = dict.Page().Data(), true
		}
		p.index = p.plain.Int32()
	}
	p.levels = int(p.page.NumValues())
	if len(p.rep) > 0 && len(p.rep) != len(p.def) {
		return fmt.Errorf("%d repetition levels and %d definition levels", len(p.rep), len(p.def))
	}
	return nil
}

func (p *pages) release() {
	if p.page != nil {
		parquet.Release(p.page)
		p.page, p.levels, p.pos = nil, 0, 0
	}
}

func (p *pages) Close() error {
	p.release()
	return p.source.Close()
}

// more makes sure that there is a next entry; false at the end of the chunk.
func (p *pages) more() (bool, error) {
	if p.pos < p.levels {
		return true, nil
	}
	return p.load()
}

var errIndex = errors.New("a value points outside the dictionary")

// decoder turns parquet-go's values into a slice of T. Dictionaries are turned once.
type decoder[T any] struct {
	cast  func(to []T, v encoding.Values, at int) error // values at, at+1, ... of v
	table []T                                           // the dictionary; nil before its first use
}

// next decodes the next len(to) values of the page.
func (d *decoder[T]) next(p *pages, to []T) error {
	if p.index == nil {
		return d.cast(to, p.plain, p.val)
	}
	if d.table == nil {
		size := 4
		if kind := p.dict.Kind(); kind == encoding.Double || kind == encoding.Int64 {
			size = 8
		}
		d.table = make([]T, int(p.dict.Size())/size)
		if err := d.cast(d.table, p.dict, 0); err != nil {
			return err
		}
	}
	index := within(p.index, p.val, len(to))
	for i, at := range index {
		if uint(at) >= uint(len(d.table)) {
			return errIndex
		}
		to[i] = d.table[at]
	}
	return nil
}

// within is s[at:at+n], and a panic where a plain slice expression would reach into spare capacity.
func within[T any](s []T, at, n int) []T { return s[at : at+n : len(s)] }

func convert[T float32 | int64, S float32 | float64 | int32 | uint32 | int64 | uint64](to []T, from []S) {
	for i, v := range from {
		to[i] = T(v)
	}
}

// toFloats decodes numbers of any type to the nearest float32.
func toFloats(unsigned bool) func([]float32, encoding.Values, int) error {
	return func(to []float32, v encoding.Values, at int) error {
		n := len(to)
		switch kind := v.Kind(); {
		case kind == encoding.Float:
			copy(to, within(v.Float(), at, n))
		case kind == encoding.Double:
			convert(to, within(v.Double(), at, n))
		case kind == encoding.Int32 && unsigned:
			convert(to, within(v.Uint32(), at, n))
		case kind == encoding.Int32:
			convert(to, within(v.Int32(), at, n))
		case kind == encoding.Int64 && unsigned:
			convert(to, within(v.Uint64(), at, n))
		case kind == encoding.Int64:
			convert(to, within(v.Int64(), at, n))
		default:
			return fmt.Errorf("values of type %s, wanted numbers", kind)
		}
		return nil
	}
}

// toBytes decodes integers that are annotated as uint8.
func toBytes(to []byte, v encoding.Values, at int) error {
	var all uint32
	for i, u := range within(v.Uint32(), at, len(to)) {
		all |= u
		to[i] = byte(u)
	}
	if all > math.MaxUint8 {
		return errors.New("a value above 255 in a column of uint8")
	}
	return nil
}

// toInts decodes integers. Unsigned ones beyond int64 come out negative.
func toInts(unsigned bool) func([]int64, encoding.Values, int) error {
	return func(to []int64, v encoding.Values, at int) error {
		n := len(to)
		switch kind := v.Kind(); {
		case kind == encoding.Int32 && unsigned:
			convert(to, within(v.Uint32(), at, n))
		case kind == encoding.Int32:
			convert(to, within(v.Int32(), at, n))
		case kind == encoding.Int64:
			copy(to, within(v.Int64(), at, n))
		default:
			return fmt.Errorf("values of type %s, wanted integers", kind)
		}
		return nil
	}
}

// text returns the next value as a new string.
func (p *pages) text() (string, error) {
	v, at := p.plain, p.val
	if p.index != nil {
		v, at = p.dict, int(p.index[p.val])
	}
	data, offsets := v.ByteArray()
	if at < 0 || at+1 >= len(offsets) {
		return "", errIndex
	}
	return string(data[offsets[at]:offsets[at+1]]), nil
}
