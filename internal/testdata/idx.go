package testdata

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/csv"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
)

// IDX reads the first rows of a gzipped file in the MNIST format, of element type uint8 or float32.
func IDX(t testing.TB, path string, rows int) (shape []int, values []float32) {
	t.Helper()
	data := unzip(t, path)
	kind, axes := data[2], int(data[3])
	at := 4
	for range axes {
		shape = append(shape, int(binary.BigEndian.Uint32(data[at:])))
		at += 4
	}
	shape[0] = min(shape[0], rows)
	n := 1
	for _, d := range shape {
		n *= d
	}
	for i := range n {
		switch kind {
		case 0x08:
			values = append(values, float32(data[at+i]))
		case 0x0D:
			values = append(values, math.Float32frombits(binary.BigEndian.Uint32(data[at+4*i:])))
		default:
			t.Fatalf("%s: element type %#x", path, kind)
		}
	}
	return shape, values
}

func unzip(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	return data
}

// Features reads a gzipped CSV file whose last column is the class: the numbers of the other columns, and the classes as
// numbers in the order of their sorted names.
func Features(t testing.TB, path string) (shape []int, values []float32, labels []int32) {
	t.Helper()
	lines, err := csv.NewReader(bytes.NewReader(unzip(t, path))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, line := range lines[1:] {
		names = append(names, line[len(line)-1])
		for _, cell := range line[:len(line)-1] {
			v, err := strconv.ParseFloat(cell, 32)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, float32(v))
		}
	}
	classes := slices.Compact(slices.Sorted(slices.Values(names)))
	for _, name := range names {
		labels = append(labels, int32(slices.Index(classes, name)))
	}
	return []int{len(lines) - 1, len(lines[0]) - 1}, values, labels
}
