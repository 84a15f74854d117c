package datasets

import (
	"bytes"
	"hash/crc32"
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/testdata"
)

func TestIDXTypes(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  byte
		data  any
		want  []float32
		float bool
	}{
		{"uint8", idxUint8, []uint8{0, 1, 254, 255}, []float32{0, 1, 254, 255}, false},
		{"int8", idxInt8, []int8{-128, -1, 0, 127}, []float32{-128, -1, 0, 127}, true},
		{"int16", idxInt16, []int16{-32768, 258, -2, 32767}, []float32{-32768, 258, -2, 32767}, true},
		{"int32", idxInt32, []int32{-65536, 65537, -2, 3}, []float32{-65536, 65537, -2, 3}, true},
		{"float32", idxFloat32, []float32{-0.5, 1e-30, 3, 1e30}, []float32{-0.5, 1e-30, 3, 1e30}, true},
		{"float64", idxFloat64, []float64{-0.5, 0.1, 3, 1e30}, []float32{-0.5, 0.1, 3, 1e30}, true},
	} {
		data := idxBytes(c.kind, c.data, 2, 1, 2)
		for _, file := range [][]byte{data, zipped(t, data)} {
			s := checked(t, oneSet(Spec{Source: "idx", Images: write(t, "x", file)}))
			got := collect(t, s, "d", 1)
			if diff := cmp.Diff(c.want, got.X); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
			d, _ := s.Get("d")
			want := Info{Name: "d", Rows: 2, Shape: []int{1, 2}, Float: c.float}
			if !c.float {
				want.Hi = 255
			}
			if diff := cmp.Diff(want, d.Info()); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
			if diff := cmp.Diff([]bool{false, false}, got.HasLabel); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
		}
	}
}

func TestIDXBadFiles(t *testing.T) {
	x := idxBytes(idxUint8, []uint8{1, 2, 3, 4, 5, 6}, 3, 2)
	y := idxBytes(idxUint8, []uint8{0, 1, 2}, 3)
	cut := zipped(t, x)
	flipped := bytes.Clone(cut)
	flipped[len(flipped)-6] ^= 1 // the checksum
	for _, c := range []struct {
		name           string
		images, labels []byte
		want           string
	}{
		{"empty", nil, y, "images: not an IDX file: 0 bytes"},
		{"3 bytes", x[:3], y, "images: not an IDX file: 3 bytes"},
		{"text", []byte("label,pixel0\n"), y, "images: not an IDX file: it starts with 6c 61 62 65"},
		{"unknown type", idxBytes(0x0a, []uint8{1}, 1, 1), y, "images: not an IDX file: it starts with 00 00 0a 02"},
		{"no dimensions", idxBytes(idxUint8, []uint8{1}), y, "images: not an IDX file"},
		{"cut header", x[:9], y, "images: the header is cut off: 9 bytes of 12"},
		{"zero dimension", idxBytes(idxUint8, []uint8{}, 3, 0), y, "images: the header has samples of shape [0]"},
		{"huge dimension", idxBytes(idxUint8, []uint8{}, 1, 0xffffffff, 0xffffffff), y, "images: the header has samples of shape"},
		{"one dimension", y, y, "images: one dimension, wanted rows and"},
		{"truncated", x[:len(x)-1], y, "images: the header says 3 rows, the file has 2 and ends in row 2"},
		{"too long", append(bytes.Clone(x), 7), y, "images: 1 bytes follow the 3 rows"},
		{"truncated inside gzip", zipped(t, x[:len(x)-1]), y, "images: row 2: the header says 3 rows, the data end here"},
		{"too long inside gzip", zipped(t, append(bytes.Clone(x), 7)), y, "images: more data follow the 3 rows"},
		{"cut gzip", cut[:len(cut)-12], y, "images: the file is damaged: unexpected EOF"},
		{"wrong checksum", flipped, y, "images: the file is damaged: gzip: invalid checksum"},
		{"gzip of nothing", zipped(t, nil), y, "images: not an IDX file: 0 bytes"},
		{"half a gzip header", []byte{0x1f, 0x8b, 8}, y, "images: the gzip header is damaged"},
		{"gzip cannot hold it", zipped(t, idxBytes(idxUint8, []uint8{}, 0xffffffff, 1024)), y, "images: the header says 4294967295 rows of 1024 bytes, more than a gzip file of"},
		{"too few labels", x, idxBytes(idxUint8, []uint8{0, 1}, 2), "labels: 2 labels for the 3 samples of"},
		{"labels of two dimensions", x, x, "labels: labels of shape [2], wanted one number a row"},
		{"labels are fractions", x, idxBytes(idxFloat32, []float32{0, 1, 2}, 3), "labels: labels are fractions, wanted integers"},
		{"label out of range", x, idxBytes(idxUint8, []uint8{0, 3, 2}, 3), "labels: row 1: label 3, wanted 0 to 2"},
		{"label negative", x, idxBytes(idxInt8, []int8{0, 1, -1}, 3), "labels: row 2: label -1, wanted 0 to 2"},
		{"labels truncated inside gzip", x, zipped(t, y[:len(y)-1]), "labels: row 2: the header says 3 rows, the data end here"},
		{"NaN", idxBytes(idxFloat32, []float32{1, 2, 3, float32(math.NaN()), 5, 6}, 3, 2), y, "images: row 1: NaN at position 1 of x"},
		{"no rows", idxBytes(idxUint8, []uint8{}, 0, 2), idxBytes(idxUint8, []uint8{}, 0), "images: no rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := checked(t, oneSet(Spec{Source: "idx", Images: write(t, "images", c.images), Labels: write(t, "labels", c.labels), NumClasses: 3}))
			_, err := tryCollect(s, "d", 2)
			wantFault(t, err, fault.Data, c.want)
		})
	}
	_, err := oneSet(Spec{Source: "idx", Images: "/does/not/exist"}).Get("d")
	wantFault(t, err, fault.Data, "/does/not/exist: there is no such file")
}

func TestIDXKeepsBadRows(t *testing.T) {
	x := idxBytes(idxFloat32, []float32{1, 2, 3, float32(math.Inf(-1)), 5, 6}, 3, 2)
	y := idxBytes(idxInt32, []int32{7, 1, 2}, 3)
	got := collect(t, oneSet(Spec{Source: "idx", Images: write(t, "x", x), Labels: write(t, "y", y), NumClasses: 3, BadRows: "keep"}), "d", 2)
	want := &Rows{
		IDs: []int64{0, 1, 2}, Labels: []int32{0, 1, 2}, HasLabel: []bool{false, true, true}, X: []float32{0, 0, 0, 0, 5, 6},
		Status: []string{StatusLabelRange, StatusInfinite, StatusOK},
		Reason: []string{"label 7, wanted 0 to 2", "infinity (or a number beyond float32) at position 1 of x", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestIDXSkipAndLimit(t *testing.T) {
	x := idxBytes(idxUint8, []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 10, 1)
	y := idxBytes(idxUint8, []uint8{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 10)
	for _, file := range [][]byte{x, zipped(t, x)} {
		s := oneSet(Spec{Source: "idx", Images: write(t, "x", file), Labels: write(t, "y", y), Skip: 3, Limit: 4})
		got := collect(t, s, "d", 3)
		if diff := cmp.Diff([]int64{3, 4, 5, 6}, got.IDs) + cmp.Diff([]float32{3, 4, 5, 6}, got.X) + cmp.Diff([]int32{6, 5, 4, 3}, got.Labels); diff != "" {
			t.Error(diff)
		}
	}
}

// Counts are the published ones; the checksum was taken from the file with another program.
func TestMNIST(t *testing.T) {
	dir := filepath.Join(testdata.Dir(t), "mnist")
	s := checked(t, NewSet(map[string]Spec{"d": {
		Source: "idx", Images: "t10k-images-idx3-ubyte.gz", Labels: "t10k-labels-idx1-ubyte.gz", NumClasses: 10,
	}}, 1, dir))
	got := collect(t, s, "d", 1000)
	counts := make([]int, 10)
	for _, label := range got.Labels {
		counts[label]++
	}
	if diff := cmp.Diff([]int{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}, counts); diff != "" {
		t.Error(diff)
	}
	d, _ := s.Get("d")
	if diff := cmp.Diff(Info{Name: "d", Rows: 10000, Shape: []int{28, 28}, Labelled: true, Classes: numbered(10), Hi: 255}, d.Info()); diff != "" {
		t.Error(diff)
	}
	if got, want := crc(got.X), uint32(0xe4ca5f57); got != want {
		t.Errorf("checksum of the pixels %#x, want %#x", got, want)
	}
}

// crc is the CRC-32 of values that are whole numbers from 0 to 255, as bytes.
func crc(x []float32) uint32 {
	b := make([]byte, len(x))
	for i, v := range x {
		b[i] = byte(v)
	}
	return crc32.ChecksumIEEE(b)
}

// USPS as int16 is exact: a value is round(2000 v) of the source, and round(255 v) is the uint8 file.
func TestUSPSInt16(t *testing.T) {
	dir := filepath.Join(testdata.Dir(t), "usps")
	set := NewSet(map[string]Spec{
		"i16": {Source: "idx", Images: "test-images-idx3-int16.gz", Labels: "test-labels-idx1-ubyte.gz", NumClasses: 10, Range: []float64{0, 2000}},
		"u8":  {Source: "idx", Images: "test-images-idx3-ubyte.gz", Labels: "test-labels-idx1-ubyte.gz", NumClasses: 10},
	}, 1, dir)
	i16, u8 := collect(t, set, "i16", 512), collect(t, set, "u8", 512)
	d, _ := set.Get("i16")
	if diff := cmp.Diff(Info{Name: "i16", Rows: 2007, Shape: []int{16, 16}, Labelled: true, Classes: numbered(10), Float: true, Hi: 2000}, d.Info()); diff != "" {
		t.Error(diff)
	}
	for i, v := range i16.X {
		if v < 0 || v > 2000 || math.Abs(float64(v)/2000*255-float64(u8.X[i])) > 0.51 {
			t.Fatalf("value %d: int16 %v, uint8 %v", i, v, u8.X[i])
		}
	}
	counts := map[int32]int{}
	for _, label := range i16.Labels {
		counts[label]++
	}
	for label, want := range []int{359, 264, 198, 166, 200, 160, 170, 147, 166, 177} {
		if counts[int32(label)] != want {
			t.Errorf("%d rows of class %s, want %d", counts[int32(label)], strconv.Itoa(label), want)
		}
	}
}
