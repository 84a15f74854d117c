package datasets

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
)

// idxFile reads an IDX file row by row: two zero bytes, a type byte, the number of dimensions, that many big-endian
// uint32 sizes, then the values in row-major order, big-endian. Its first dimension counts the rows.
// Format: Y. LeCun, C. Cortes and C. Burges, "The MNIST database of handwritten digits".
type idxFile struct {
	path  string
	kind  byte
	rows  int64
	shape []int // of one row; empty for a vector
	width int   // values of one row
	size  int   // bytes of one value

	r      *bufio.Reader
	closer io.Closer
	row    int64 // next row
	buf    []byte
}

// Type bytes of the format.
const (
	idxUint8   = 0x08
	idxInt8    = 0x09
	idxInt16   = 0x0B
	idxInt32   = 0x0C
	idxFloat32 = 0x0D
	idxFloat64 = 0x0E
)

var idxSizes = map[byte]int{idxUint8: 1, idxInt8: 1, idxInt16: 2, idxInt32: 4, idxFloat32: 4, idxFloat64: 8}

// maxDeflate is the largest possible ratio of the deflate format (RFC 1951), rounded up. A gzip file whose header claims
// more than that cannot be whole.
const maxDeflate = 1040

// openIDX opens a file, gzip or not, and reads its header.
func openIDX(path string) (*idxFile, error) {
	f, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	x, err := newIDX(path, f, size)
	if err != nil {
		f.Close()
		return nil, err
	}
	x.closer = f
	return x, nil
}

// openFile opens a regular file for reading; an error says what is wrong with the path.
func openFile(path string) (*os.File, int64, error) {
	at := inFile(path)
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, at.errorf("there is no such file").Do("correct the path; relative paths start at the folder of the config")
	case err != nil:
		return nil, 0, at.errorf("the file cannot be opened").Because(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = at.errorf("this is no regular file").Do("name a file, or all files of a folder with a pattern such as %s/*", path)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// newIDX reads the header from the start of r, which has size bytes.
func newIDX(path string, r io.Reader, size int64) (*idxFile, error) {
	x := &idxFile{path: path, r: bufio.NewReaderSize(r, 1<<18)}
	magic, err := x.r.Peek(2)
	if err != nil && err != io.EOF {
		return nil, inFile(path).errorf("the file cannot be read").Because(cause(err))
	}
	zipped := len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b
	if zipped {
		z, err := gzip.NewReader(x.r)
		if err != nil {
			return nil, inFile(path).errorf("the gzip header is damaged").Because(cause(err)).Do("fetch a fresh copy")
		}
		x.r = bufio.NewReaderSize(z, 1<<18)
	}
	header, err := x.header()
	if err != nil {
		return nil, err
	}
	return x, x.checkSize(size, header, zipped)
}

// header reads the header and returns its size in bytes.
func (x *idxFile) header() (int64, error) {
	at := inFile(x.path)
	var magic [4]byte
	if n, err := io.ReadFull(x.r, magic[:]); err != nil {
		return 0, at.errorf("not an IDX file: %d bytes, wanted a header of at least 8", n).Because(unlessShort(err)).
			Do("name a file of the MNIST format")
	}
	x.kind, x.size = magic[2], idxSizes[magic[2]]
	if magic[0] != 0 || magic[1] != 0 || x.size == 0 || magic[3] == 0 {
		return 0, at.errorf("not an IDX file: it starts with % x, wanted 00 00, a type (08, 09, 0b, 0c, 0d or 0e) and the number of dimensions", magic).
			Do("name a file of the MNIST format")
	}
	dims := make([]byte, 4*int(magic[3]))
	if n, err := io.ReadFull(x.r, dims); err != nil {
		return 0, at.errorf("the header is cut off: %d bytes of %d for %d dimensions", 4+n, 4+len(dims), magic[3]).
			Because(unlessShort(err)).Do("fetch a fresh copy")
	}
	for i := 4; i < len(dims); i += 4 {
		x.shape = append(x.shape, int(binary.BigEndian.Uint32(dims[i:])))
	}
	x.rows = int64(binary.BigEndian.Uint32(dims))
	width, err := product(x.shape)
	if err != nil {
		return 0, at.errorf("the header has samples of %v", err).Do("fetch a fresh copy")
	}
	x.width = width
	return int64(4 + len(dims)), nil
}

// unlessShort drops errors that only say that the data end.
func unlessShort(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return cause(err)
}

// checkSize compares what the header claims with what a file of size bytes can hold.
func (x *idxFile) checkSize(size, header int64, zipped bool) error {
	at := inFile(x.path)
	want := x.rows * int64(x.width) * int64(x.size) // below 2^32 * 2^26 * 2^3
	switch {
	case zipped && want/maxDeflate > size:
		return at.errorf("the header says %d rows of %d bytes, more than a gzip file of %d bytes can hold", x.rows, x.width*x.size, size).Do("fetch a fresh copy")
	case !zipped && size-header < want:
		return at.errorf("the header says %d rows, the file has %d and ends in row %d", x.rows, (size-header)/int64(x.width*x.size), (size-header)/int64(x.width*x.size)).Do("fetch a fresh copy")
	case !zipped && size-header > want:
		return at.errorf("%d bytes follow the %d rows that the header says", size-header-want, x.rows).Do("fetch a fresh copy")
	}
	return nil
}

// next returns the bytes of the next row, valid until the next call.
func (x *idxFile) next() ([]byte, error) {
	if x.buf == nil {
		x.buf = make([]byte, x.width*x.size)
	}
	return x.buf, x.into(x.buf)
}

// into reads the bytes of the next row.
func (x *idxFile) into(buf []byte) error {
	if _, err := io.ReadFull(x.r, buf); err != nil {
		return x.cutOff(err)
	}
	x.row++
	return nil
}

func (x *idxFile) cutOff(err error) error {
	at := place{file: x.path, group: -1, row: x.row}
	return at.errorf("the header says %d rows, the data end here", x.rows).Because(unlessShort(err)).Do("fetch a fresh copy")
}

// skip passes over n rows.
func (x *idxFile) skip(n int64) error {
	row := int64(x.width * x.size)
	skipped, err := io.CopyN(io.Discard, x.r, n*row)
	x.row += skipped / row
	if err != nil {
		return x.cutOff(err)
	}
	return nil
}

// end checks that nothing follows the last row; for gzip this also verifies the checksum.
func (x *idxFile) end() error {
	_, err := x.r.ReadByte()
	switch err {
	case io.EOF:
		return nil
	case nil:
		return inFile(x.path).errorf("more data follow the %d rows that the header says", x.rows).Do("fetch a fresh copy")
	}
	return inFile(x.path).errorf("the file is damaged").Because(cause(err)).Do("fetch a fresh copy")
}

func (x *idxFile) Close() error { return x.closer.Close() }

// floats decodes big-endian values.
func (x *idxFile) floats(to []float32, from []byte) {
	switch x.kind {
	case idxUint8:
		for i := range to {
			to[i] = float32(from[i])
		}
	case idxInt8:
		for i := range to {
			to[i] = float32(int8(from[i]))
		}
	case idxInt16:
		for i := range to {
			to[i] = float32(int16(binary.BigEndian.Uint16(from[2*i:])))
		}
	case idxInt32:
		for i := range to {
			to[i] = float32(int32(binary.BigEndian.Uint32(from[4*i:])))
		}
	case idxFloat32:
		for i := range to {
			to[i] = math.Float32frombits(binary.BigEndian.Uint32(from[4*i:]))
		}
	case idxFloat64:
		for i := range to {
			to[i] = float32(math.Float64frombits(binary.BigEndian.Uint64(from[8*i:])))
		}
	}
}

// integer decodes one big-endian integer.
func (x *idxFile) integer(from []byte) int64 {
	switch x.kind {
	case idxInt8:
		return int64(int8(from[0]))
	case idxInt16:
		return int64(int16(binary.BigEndian.Uint16(from)))
	case idxInt32:
		return int64(int32(binary.BigEndian.Uint32(from)))
	}
	return int64(from[0])
}

// checkLabels makes sure that a file holds one integer a row.
func (x *idxFile) checkLabels() error {
	switch {
	case len(x.shape) > 0:
		return inFile(x.path).errorf("labels of shape %v, wanted one number a row", x.shape).Do("name the file with the class numbers (one dimension)")
	case x.kind == idxFloat32 || x.kind == idxFloat64:
		return inFile(x.path).errorf("labels are fractions, wanted integers").Do("store class numbers from 0 as an integer type")
	}
	return nil
}
