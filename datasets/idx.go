package datasets

import "context"

func init() {
	register(source{
		name: "idx",
		keys: []string{"images", "labels"},
		need: []string{"images"},
		open: openIDXPair,
	})
}

// openIDXPair opens a file of samples and, where there is one, a file of labels.
func openIDXPair(spec Spec, at site) (*opened, error) {
	images, labels := at.resolve(spec.Images), ""
	x, err := openIDX(images)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	if len(x.shape) == 0 {
		return nil, inFile(images).errorf("one dimension, wanted rows and at least one dimension of a sample").Do("name the file with the samples")
	}
	got := &opened{shape: x.shape, float: x.kind != idxUint8, rows: x.rows, files: []string{images}}
	if !got.float {
		got.span = []float64{0, 255}
	}
	if spec.Labels != "" {
		labels = at.resolve(spec.Labels)
		y, err := openIDX(labels)
		if err != nil {
			return nil, err
		}
		defer y.Close()
		if err := y.checkLabels(); err != nil {
			return nil, err
		}
		if y.rows != x.rows {
			return nil, inFile(labels).errorf("%d labels for the %d samples of %s", y.rows, x.rows, images).Do("name the two files of the same set")
		}
		got.labelled, got.files = true, append(got.files, labels)
	}
	got.start = func(context.Context) (stream, error) { return startIDX(images, labels, x.rows, at.classes) }
	return got, nil
}

// idxStream reads samples and labels side by side.
type idxStream struct {
	x       *idxFile
	y       *idxFile // nil where unlabelled
	classes int
}

func startIDX(images, labels string, rows int64, classes int) (stream, error) {
	x, err := openIDX(images)
	if err != nil {
		return nil, err
	}
	s := &idxStream{x: x, classes: classes}
	if labels != "" {
		if s.y, err = openIDX(labels); err != nil {
			x.Close()
			return nil, err
		}
	}
	if x.rows != rows || s.y != nil && s.y.rows != rows {
		s.Close()
		return nil, inFile(images).errorf("%d rows, %d when it was first opened", x.rows, rows).Do("do not change files during a run; run again")
	}
	return s, nil
}

func (s *idxStream) read(t *table, n int) error {
	for range n {
		if err := s.readRow(t); err != nil {
			return err
		}
	}
	return nil
}

func (s *idxStream) readRow(t *table) error {
	row := s.x.row
	var flaws []flaw
	if t.info.Float {
		raw, err := s.x.next()
		if err != nil {
			return err
		}
		s.x.floats(t.floatRow(), raw)
		if f, bad := badNumber(t.floatRow()); bad {
			flaws = append(flaws, f)
		}
	} else if err := s.x.into(t.byteRow()); err != nil {
		return err
	}
	label := int64(0)
	if s.y != nil {
		raw, err := s.y.next()
		if err != nil {
			return err
		}
		label = s.y.integer(raw)
		if f, bad := badLabel(label, s.classes); bad {
			flaws = append(flaws, f)
		}
	}
	t.ids = append(t.ids, row)
	return t.add(label, s.y != nil, flaws, func(f flaw) place {
		if f.status == StatusLabelRange {
			return place{file: s.y.path, group: -1, row: row}
		}
		return place{file: s.x.path, group: -1, row: row}
	})
}

func (s *idxStream) skip(n int64) error {
	if s.y != nil {
		if err := s.y.skip(n); err != nil {
			return err
		}
	}
	return s.x.skip(n)
}

func (s *idxStream) end() error {
	if s.y != nil {
		if err := s.y.end(); err != nil {
			return err
		}
	}
	return s.x.end()
}

func (s *idxStream) Close() error {
	if s.y != nil {
		s.y.Close()
	}
	return s.x.Close()
}
