package datasets

import (
	"encoding/binary"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetFile is an open file whose footer has been read and whose schema has been compared with what is wanted.
type parquetFile struct {
	path    string
	file    *os.File
	size    int64
	parquet *parquet.File
	cols    parquetColumns
}

// openParquet opens a file and checks everything that can be checked without reading rows.
func openParquet(path string, spec Spec) (*parquetFile, error) {
	file, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	p := &parquetFile{path: path, file: file, size: size}
	if err := p.checkMagic(); err != nil {
		file.Close()
		return nil, err
	}
	at := inFile(path)
	err = guard(func() place { return at }, func() error {
		p.parquet, err = parquet.OpenFile(file, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(1<<16))
		if err != nil {
			return damaged(at).Because(cause(err))
		}
		if err := p.checkFooter(); err != nil {
			return err
		}
		p.cols, err = findColumns(path, p.parquet.Root(), spec)
		return err
	})
	if err != nil {
		file.Close()
		return nil, err
	}
	return p, nil
}

func (p *parquetFile) Close() error { return p.file.Close() }

func (p *parquetFile) rows() int64 { return p.parquet.NumRows() }

// checkMagic looks at the first and last bytes, to tell a foreign file from a cut one and to refuse a footer that is
// longer than the file before memory is taken for it.
func (p *parquetFile) checkMagic() error {
	at := inFile(p.path)
	const head, tail = 4, 8
	var first [head]byte
	var last [tail]byte
	if p.size >= head {
		if _, err := p.file.ReadAt(first[:], 0); err != nil {
			return at.errorf("the file cannot be read").Because(cause(err))
		}
	}
	switch string(first[:]) {
	case "PAR1":
	case "PARE":
		return at.errorf("the file is encrypted").Do("write it without encryption")
	default:
		return at.errorf("not a Parquet file: %d bytes that do not start with PAR1", p.size).Do("name a Parquet file")
	}
	if p.size >= head+tail {
		if _, err := p.file.ReadAt(last[:], p.size-tail); err != nil {
			return at.errorf("the file cannot be read").Because(cause(err))
		}
	}
	if string(last[4:]) != "PAR1" {
		return at.errorf("the file is cut off: it starts as a Parquet file and does not end as one").Do("write it again or fetch a fresh copy")
	}
	if n := int64(binary.LittleEndian.Uint32(last[:])); n > p.size-head-tail {
		return at.errorf("the footer claims %d bytes of a file of %d", n, p.size).Do("write it again or fetch a fresh copy")
	}
	return nil
}

// checkFooter compares the row counts of the footer with each other.
func (p *parquetFile) checkFooter() error {
	var sum int64
	for i, group := range p.parquet.Metadata().RowGroups {
		if group.NumRows < 0 || group.NumRows > 1<<40 {
			return place{file: p.path, group: i, row: -1}.errorf("the footer claims %d rows", group.NumRows).Do("write it again or fetch a fresh copy")
		}
		sum += group.NumRows
	}
	if sum != p.rows() {
		return inFile(p.path).errorf("the footer claims %d rows, its row groups have %d", p.rows(), sum).Do("write it again or fetch a fresh copy")
	}
	return nil
}

// chunk is the column chunk of a leaf column in a row group, checked.
func (p *parquetFile) chunk(group int, leaf *parquet.Column) (parquet.ColumnChunk, error) {
	at := place{file: p.path, group: group, row: -1, column: leaf.Path()[0]}
	groups := p.parquet.Metadata().RowGroups
	meta, first := &groups[group].Columns[leaf.Index()], &groups[0].Columns[leaf.Index()]
	switch {
	case meta.FilePath != "":
		return nil, at.errorf("its data lie in another file, %s", meta.FilePath).Do("write the data into one file")
	case meta.MetaData.Type != format.Type(leaf.Type().Kind()):
		return nil, at.errorf("type %s in the row group, %s in the schema", meta.MetaData.Type, leaf.Type().Kind()).Do("write it again or fetch a fresh copy")
	case meta.MetaData.Codec != first.MetaData.Codec: // parquet-go takes the codec of the first row group for all
		return nil, at.errorf("compressed with %s, row group 0 with %s; that is not supported", meta.MetaData.Codec, first.MetaData.Codec).Do("write the file with one compression")
	}
	if err := p.checkPages(at, &meta.MetaData); err != nil {
		return nil, err
	}
	return p.parquet.RowGroups()[group].ColumnChunks()[leaf.Index()], nil
}
