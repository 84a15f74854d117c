package datasets

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
)

func init() {
	register(source{
		name: "parquet",
		keys: []string{"path", "x", "label", "id", "shape"},
		need: []string{"path"},
		open: openParquetSet,
	})
}

// parquetSet is what is known of the files of an entry after their footers have been read.
type parquetSet struct {
	spec    Spec
	files   []string
	rows    []int64 // of each file
	width   int
	why     string // where width comes from
	classes int
}

// openParquetSet reads the footer of every file and makes sure that they fit together.
func openParquetSet(spec Spec, at site) (*opened, error) {
	files, err := expand(at.resolve(spec.Path))
	if err != nil {
		return nil, err
	}
	set := &parquetSet{spec: spec, files: files, classes: at.classes}
	got := &opened{files: files}
	for i, path := range files {
		p, err := openParquet(path, spec)
		if err != nil {
			return nil, err
		}
		cols, rows := p.cols, p.rows()
		p.Close()
		if i == 0 {
			got.float, got.labelled, got.stringID = !cols.x.bytes, cols.label != nil, cols.stringID()
		} else if err := got.same(path, cols); err != nil {
			return nil, err
		}
		set.rows = append(set.rows, rows)
		got.rows += rows
	}
	if !got.float {
		got.span = []float64{0, 255}
	}
	got.start = func(ctx context.Context) (stream, error) { return &parquetStream{ctx: ctx, set: set}, nil }
	if got.rows == 0 {
		return got, nil // reported by the caller
	}
	got.shape, err = set.shape()
	return got, err
}

// expand lists the files of a path or pattern, in order of their names.
func expand(path string) ([]string, error) {
	if !strings.ContainsAny(path, "*?[") {
		return []string{path}, nil
	}
	files, err := filepath.Glob(path)
	if err != nil {
		return nil, fault.New(fault.Config, path, "the pattern is wrong").Because(err).Do("close the bracket, or escape it with a backslash")
	}
	if len(files) == 0 {
		return nil, inFile(path).errorf("no file matches").Do("correct the path; relative paths start at the folder of the config")
	}
	slices.Sort(files)
	return files, nil
}

// same compares the columns of a file with those of the first.
func (o *opened) same(path string, cols parquetColumns) error {
	kind := func(yes bool, a, b string) string {
		if yes {
			return a
		}
		return b
	}
	for _, c := range []struct {
		column      string
		here, there bool
		yes, no     string
	}{
		{"x", cols.x.bytes, !o.float, "a list of uint8", "a list of other numbers"},
		{"label", cols.label != nil, o.labelled, "there", "missing"},
		{"id", cols.stringID(), o.stringID, "text", "an integer or missing"},
	} {
		if c.here != c.there {
			return place{path, -1, -1, c.column}.errorf("%s, but %s in %s", kind(c.here, c.yes, c.no), kind(c.there, c.yes, c.no), o.files[0]).
				Do("write all files with the same columns, or make two data sets of them")
		}
	}
	return nil
}

// shape is the shape of one sample: what the config says, or the length of the first list.
func (s *parquetSet) shape() ([]int, error) {
	if len(s.spec.Shape) > 0 {
		s.width, _ = product(s.spec.Shape) // Lint has checked it
		s.why = "shape " + dims(s.spec.Shape)
		return s.spec.Shape, nil
	}
	stream := &parquetStream{ctx: context.Background(), set: s}
	defer stream.Close()
	n, err := stream.firstLength()
	if err != nil {
		return nil, err
	}
	if n == 0 || n > maxWidth {
		return nil, inFile(s.files[0]).errorf("the shape of a sample cannot be taken from the first list: it has %d values", n).Do("set shape")
	}
	s.width, s.why = n, "the length of the first list, because no shape is set"
	return []int{n}, nil
}

func dims(shape []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", "x")
}
