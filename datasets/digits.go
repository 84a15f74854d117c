package datasets

import (
	"bytes"
	"context"
	_ "embed"
	"sync"

	"github.com/jempipe/jempipe/internal/fault"
)

// The digits of Alpaydin and Kaynak (UCI, CC BY 4.0); digits/NOTICE has the details.
var (
	//go:embed digits/images-idx3-ubyte.gz
	digitImages []byte
	//go:embed digits/labels-idx1-ubyte.gz
	digitLabels []byte
)

func init() {
	register(source{
		name: "builtin:digits",
		keys: []string{"split"},
		data: "digits 8x8, 1797 rows, split 1",
		lint: lintDigits,
		open: openDigits,
	})
}

func lintDigits(spec Spec) []Problem {
	var found []Problem
	for _, key := range givenKeys(spec) {
		if key == "num_classes" || key == "class_names" {
			found = append(found, Problem{key, "builtin:digits has its ten classes: remove it"})
		}
	}
	return found
}

// digitParts says which of five rows belong to a part: within each class, in the order of the set, row k is in the parts
// that have k mod 5. So each part has the classes in the proportions of the whole set, and never changes.
var digitParts = map[string][5]bool{
	"train": {true, true, true, false, false},
	"valid": {false, false, false, true, false},
	"test":  {false, false, false, false, true},
	"all":   {true, true, true, true, true},
}

// digitsData is the whole set.
type digitsData struct {
	x      []byte // rows of 64
	labels []byte
}

var loadDigits = sync.OnceValues(func() (digitsData, error) {
	var d digitsData
	images, err := newIDX("builtin:digits", bytes.NewReader(digitImages), int64(len(digitImages)))
	if err != nil {
		return d, err
	}
	labels, err := newIDX("builtin:digits", bytes.NewReader(digitLabels), int64(len(digitLabels)))
	if err != nil {
		return d, err
	}
	d.x, d.labels = make([]byte, int(images.rows)*images.width), make([]byte, labels.rows)
	for i := range int(images.rows) {
		if err := images.into(d.x[i*images.width : (i+1)*images.width]); err != nil {
			return d, err
		}
		if err := labels.into(d.labels[i : i+1]); err != nil {
			return d, err
		}
	}
	return d, nil
})

func openDigits(spec Spec, at site) (*opened, error) {
	part, ok := digitParts[spec.Split]
	if !ok {
		return nil, fault.New(fault.Config, "data."+at.name+".split", "unknown part %q, wanted train, valid, test or all", spec.Split)
	}
	data, err := loadDigits()
	if err != nil {
		return nil, fault.New(fault.Internal, "builtin:digits", "the data in the program are damaged").Because(err)
	}
	var rows []int
	var seen [10]int
	for i, label := range data.labels {
		if part[seen[label]%5] {
			rows = append(rows, i)
		}
		seen[label]++
	}
	return &opened{
		shape: []int{8, 8}, labelled: true, classes: numbered(10), span: []float64{0, 16}, rows: int64(len(rows)),
		start: func(context.Context) (stream, error) { return &digitsStream{data: data, rows: rows}, nil },
	}, nil
}

// digitsStream gives the rows of a part; sample_id is the row number in the whole set.
type digitsStream struct {
	data digitsData
	rows []int // still to give
}

func (s *digitsStream) read(t *table, n int) error {
	for _, i := range s.rows[:n] {
		copy(t.byteRow(), s.data.x[i*64:(i+1)*64])
		t.ids = append(t.ids, int64(i))
		if err := t.add(int64(s.data.labels[i]), true, nil, nil); err != nil {
			return err
		}
	}
	return s.skip(int64(n))
}

func (s *digitsStream) skip(n int64) error {
	s.rows = s.rows[n:]
	return nil
}

func (s *digitsStream) end() error { return nil }

func (s *digitsStream) Close() error { return nil }
