package datasets

import (
	"context"
	"io"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// benchmark reads a data set again and again and reports the rate.
func benchmark(b *testing.B, s *Set, name string) {
	d, err := s.Get(name)
	if err != nil {
		b.Fatal(err)
	}
	info := d.Info()
	b.SetBytes(info.Rows * int64(info.Width()))
	b.ReportAllocs()
	for b.Loop() {
		r, err := d.Open(context.Background(), 256)
		if err != nil {
			b.Fatal(err)
		}
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			rec.Release()
		}
		r.Close()
	}
	b.ReportMetric(float64(info.Rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// Rows of 28x28 values, as a picture data set has.
func BenchmarkParquet(b *testing.B) {
	row := func(value func(int) any) []cell {
		var cells []cell
		for k := range 784 {
			cells = append(cells, cell{min(k, 1), 1, value(k)})
		}
		return cells
	}
	f := func(k int) any { return float32(k%256) / 255 }
	u := func(k int) any { return uint32(k % 256) }
	for _, c := range []struct {
		name string
		leaf parquet.Node
		x    []cell
	}{
		{"float", parquet.Leaf(parquet.FloatType), row(f)},
		{"float dictionary", parquet.Encoded(parquet.Leaf(parquet.FloatType), &parquet.RLEDictionary), row(f)},
		{"uint8", parquet.Uint(8), row(u)},
		{"uint8 dictionary", parquet.Encoded(parquet.Uint(8), &parquet.RLEDictionary), row(u)},
	} {
		var rows [][][]cell
		for i := range 2000 {
			rows = append(rows, [][]cell{req(int32(i % 10)), c.x})
		}
		schema := parquet.Group{"label": parquet.Int(32), "x": parquet.List(c.leaf)}
		path := write(b, "a.parquet", parquetBytes(b, schema, 1000, rows, parquet.Compression(&parquet.Zstd)))
		b.Run(c.name, func(b *testing.B) { benchmark(b, oneSet(Spec{Source: "parquet", Path: path}), "d") })
	}
}

func BenchmarkDerived(b *testing.B) {
	s := NewSet(derivedSpecs(), 1, "")
	for _, name := range append([]string{"base"}, derivationNames()...) {
		b.Run(name, func(b *testing.B) { benchmark(b, s, name) })
	}
}
