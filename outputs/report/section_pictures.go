package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/outputs"
)

// maxSamples is how many SGLD samples are drawn at most; the rest of MaxPictures is for the gallery.
const maxSamples = 100

// samplesSection draws the last state of each SGLD chain; nil without samples.
func samplesSection(r Report) *Section {
	last := lastStates(r.Samples)
	if len(last) == 0 {
		return nil
	}
	s := &Section{ID: "samples", Title: "Samples",
		Lead: "Inputs that the model itself finds likely, drawn with SGLD. Good ones look like data; noise or blots mean that the density is not to be trusted."}
	if r.SamplesNote != "" {
		s.Lead += " " + r.SamplesNote
	}
	if len(last) > maxSamples {
		s.Lead += fmt.Sprintf(" %s of %s chains are shown.", count(maxSamples), count(int64(len(last))))
		last = last[:maxSamples]
	}
	block := Block{Source: "samples"}
	for _, x := range last {
		p := Picture{Alt: fmt.Sprintf("SGLD sample of chain %d after %d steps", x.Chain, x.Step)}
		if img, err := Thumb(x.X, r.SampleShape, r.SampleRange[0], r.SampleRange[1]); err == nil {
			p.Image = &img
		} else {
			p.Alt = err.Error()
		}
		p.Lines = sampleLines(x)
		p.Warning = x.Class != nil && x.Pred != nil && *x.Class != *x.Pred
		block.Pictures = append(block.Pictures, p)
	}
	plainWithoutPictures(block.Pictures)
	s.Blocks = []Block{block}
	return s
}

// plainWithoutPictures keeps no place for pictures where no input can be drawn, such as rows of a table.
func plainWithoutPictures(list []Picture) {
	if slices.ContainsFunc(list, func(p Picture) bool { return p.Image != nil }) {
		return
	}
	for i := range list {
		list[i].Plain = true
	}
}

// lastStates is the state with the most steps of every chain that is kept, by class and chain.
func lastStates(rows []outputs.Sample) []outputs.Sample {
	at := make(map[int64]int)
	var out []outputs.Sample
	for _, x := range rows {
		if len(x.X) == 0 {
			continue
		}
		i, seen := at[x.Chain]
		switch {
		case !seen:
			at[x.Chain] = len(out)
			out = append(out, x)
		case x.Step > out[i].Step:
			out[i] = x
		}
	}
	class := func(x outputs.Sample) int32 {
		if x.Class == nil {
			return math.MaxInt32
		}
		return *x.Class
	}
	slices.SortStableFunc(out, func(a, b outputs.Sample) int {
		return cmp.Or(cmp.Compare(class(a), class(b)), cmp.Compare(a.Chain, b.Chain))
	})
	return out
}

func sampleLines(x outputs.Sample) []string {
	name := func(text *string, index *int32) string {
		if text != nil {
			return *text
		}
		if index != nil {
			return fmt.Sprintf("class %d", *index)
		}
		return ""
	}
	var lines []string
	want, pred := name(x.ClassName, x.Class), name(x.PredName, x.Pred)
	switch {
	case want != "" && pred != "" && want != pred:
		lines = append(lines, want+" → "+pred)
	case want != "":
		lines = append(lines, want)
	case pred != "":
		lines = append(lines, pred)
	}
	if x.Energy != nil {
		lines = append(lines, "E "+significant(*x.Energy))
	}
	if x.Confidence != nil {
		lines = append(lines, "p "+percent(*x.Confidence))
	}
	return lines
}

// gallerySection shows the inputs that tell most about the model; nil without any.
func gallerySection(r Report) *Section {
	s := &Section{ID: "gallery", Title: "Gallery", Lead: "Single inputs worth a look: the worst errors and the strangest scores."}
	room := MaxPictures - min(len(lastStates(r.Samples)), maxSamples) - 1 // the one of the chains of training
	for _, g := range r.Gallery {
		if len(g.Items) == 0 {
			continue
		}
		block := Block{Title: g.Title, Text: g.Note, Source: "predictions"}
		for _, item := range g.Items[:min(len(g.Items), room)] {
			block.Pictures = append(block.Pictures, galleryPicture(item))
		}
		plainWithoutPictures(block.Pictures)
		if n := len(g.Items) - len(block.Pictures); n > 0 {
			block.Text += fmt.Sprintf(" %s more are not shown, to keep the page small.", count(int64(n)))
		}
		room -= len(block.Pictures)
		s.Blocks = append(s.Blocks, block)
	}
	if len(s.Blocks) == 0 {
		return nil
	}
	return s
}

func galleryPicture(item GalleryItem) Picture {
	p := Picture{Image: item.Image, Alt: fmt.Sprintf("input %s of %s", item.ID, item.Dataset)}
	switch {
	case item.Label == "":
		p.Lines = append(p.Lines, "→ "+item.Pred)
	case item.Label == item.Pred:
		p.Lines = append(p.Lines, item.Label)
	default:
		p.Lines = append(p.Lines, item.Label+" → "+item.Pred)
		p.Warning = true
	}
	for _, score := range item.Scores {
		p.Lines = append(p.Lines, readable(score.Name)+" "+significant(score.Value))
	}
	p.Lines = append(p.Lines, item.Dataset+" #"+item.ID)
	return p
}

// qualitySection counts what was wrong with the rows; nil without data sets.
func qualitySection(r Report) *Section {
	if len(r.Datasets) == 0 {
		return nil
	}
	s := &Section{ID: "quality", Title: "Data quality", Lead: "What was read, and what could not be used. Rows that could not be scored stay in the predictions with their status."}
	t := &Table{Source: "", Head: []Column{{Name: "Data set", Text: true}, {Name: "Role", Text: true}, {Name: "Rows"}, {Name: "Unlabelled"}, {Name: "Not scored"},
		{Name: "Confidence = 1", Note: "rows whose confidence is exactly 1 in the table: they cannot be told apart by confidence"},
		{Name: "Ties", Note: "rows with more than one largest logit"}, {Name: "Duplicate ids"}, {Name: "Constant scores", Text: true}}}
	bad := &Table{Head: []Column{{Name: "Data set", Text: true}, {Name: "Status", Text: true}, {Name: "Rows"}, {Name: "Example", Text: true}}}
	for _, d := range r.Datasets {
		constant := Cell{Text: "none"}
		for i, c := range d.Constant {
			if i == 0 {
				constant = Cell{Mark: "bad"}
			} else {
				constant.Text += ", "
			}
			constant.Text += readable(c)
		}
		saturated := Cell{Text: count(d.Saturated)}
		if d.Rows > 0 {
			saturated.Sub = percent(float64(d.Saturated) / float64(d.Rows))
		}
		t.Rows = append(t.Rows, []Cell{{Text: d.Name}, {Text: d.Role}, {Text: count(d.Rows)}, {Text: count(d.Unlabelled)},
			warnAbove(d.dropped()), saturated, {Text: count(d.Ties)}, warnAbove(d.Duplicates), constant})
		for _, n := range d.NotOK {
			bad.Rows = append(bad.Rows, []Cell{{Text: d.Name}, {Text: n.Status}, {Text: count(n.Count)}, {Text: n.Reason}})
		}
	}
	s.Blocks = []Block{{Table: t}}
	if len(bad.Rows) > 0 {
		bad.Note = "Find them with: SELECT * FROM '" + located("predictions", r.TablePaths) + "' WHERE status <> 'ok'"
		s.Blocks = append(s.Blocks, Block{Title: "Rows that were not scored", Table: bad})
	}
	return s
}

// warnAbove marks a count that should be 0.
func warnAbove(n int64) Cell {
	c := Cell{Text: count(n)}
	if n > 0 {
		c.Mark = "bad"
	}
	return c
}
