package datasets

import (
	"bufio"
	"errors"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of one page. Page headers are trusted with memory by parquet-go, so a damaged one could ask for gigabytes.
const (
	maxPageBytes  = 1 << 30
	maxPageValues = 1 << 27
)

// checkPages walks over the page headers of a column chunk, without reading pages: sizes must stay within the chunk and
// the limits, and the values must add up to what the footer says.
func (p *parquetFile) checkPages(at place, meta *format.ColumnMetaData) error {
	from, size := meta.DataPageOffset, meta.TotalCompressedSize
	if meta.DictionaryPageOffset != 0 {
		from = meta.DictionaryPageOffset
	}
	if size == 0 && meta.NumValues == 0 {
		return nil
	}
	if from < 4 || size < 0 || from > p.size || size > p.size-from {
		return at.errorf("the footer claims %d bytes from byte %d of a file of %d", size, from, p.size).Do("write it again or fetch a fresh copy")
	}
	w := pageWalk{section: io.NewSectionReader(p.file, from, size), size: size}
	w.buf = bufio.NewReaderSize(w.section, 512)
	var values int64
	for page := 0; w.at() < size; page++ {
		header, err := w.next()
		if err != nil {
			return at.errorf("page %d: the header is damaged", page).Because(cause(err)).Do("write it again or fetch a fresh copy")
		}
		n := pageValues(header)
		if n < 0 || n > maxPageValues || header.UncompressedPageSize < 0 || header.UncompressedPageSize > maxPageBytes {
			return at.errorf("page %d has %d values in %d bytes, more than the limits of %d and %d", page, n, header.UncompressedPageSize, maxPageValues, maxPageBytes).
				Do("write smaller pages; most writers take 1 MiB")
		}
		if header.Type != format.DictionaryPage {
			values += n
		}
	}
	if values != meta.NumValues {
		return at.errorf("the footer claims %d values, the pages have %d", meta.NumValues, values).Do("write it again or fetch a fresh copy")
	}
	return nil
}

func pageValues(header *format.PageHeader) int64 {
	switch {
	case header.DataPageHeaderV2.Valid:
		return int64(header.DataPageHeaderV2.V.NumValues)
	case header.DataPageHeader.Valid:
		return int64(header.DataPageHeader.V.NumValues)
	case header.DictionaryPageHeader.Valid:
		return int64(header.DictionaryPageHeader.V.NumValues)
	}
	return 0
}

// pageWalk steps from page header to page header.
type pageWalk struct {
	section *io.SectionReader
	size    int64
	buf     *bufio.Reader
}

func (w *pageWalk) at() int64 {
	pos, _ := w.section.Seek(0, io.SeekCurrent)
	return pos - int64(w.buf.Buffered())
}

// next reads a page header and passes over the page.
func (w *pageWalk) next() (*format.PageHeader, error) {
	var compact thrift.CompactProtocol
	header := new(format.PageHeader)
	if err := thrift.NewDecoder(compact.NewReader(w.buf)).Decode(header); err != nil {
		return nil, err
	}
	body, at := int64(header.CompressedPageSize), w.at()
	if body < 0 || body > w.size-at {
		return nil, errors.New("the page is longer than the rest of the column chunk")
	}
	if body <= int64(w.buf.Buffered()) {
		_, err := w.buf.Discard(int(body))
		return header, err
	}
	if _, err := w.section.Seek(at+body, io.SeekStart); err != nil {
		return nil, err
	}
	w.buf.Reset(w.section)
	return header, nil
}
