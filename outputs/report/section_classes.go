package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/outputs"
)

// classesSection has the per-class table and the confusion matrix of each labelled data set; nil without them.
func classesSection(r Report) *Section {
	if len(r.PerClass) == 0 && len(r.Confusion) == 0 {
		return nil
	}
	s := &Section{ID: "classes", Title: "Classes", Lead: "Where the errors are."}
	sets := distinct(r.PerClass, func(p outputs.PerClass) string { return p.Dataset })
	for _, set := range distinct(r.Confusion, func(c outputs.Confusion) string { return c.Dataset }) {
		if !slices.Contains(sets, set) {
			sets = append(sets, set)
		}
	}
	for i, set := range sets {
		classes := keep(r.PerClass, func(p outputs.PerClass) bool { return p.Dataset == set })
		if len(classes) > 0 {
			s.Blocks = append(s.Blocks, Block{Title: "Per class: " + set, Table: perClassTable(classes), Folded: i > 0})
		}
		cells := keep(r.Confusion, func(c outputs.Confusion) bool { return c.Dataset == set })
		if len(cells) > 0 {
			s.Blocks = append(s.Blocks, Block{Title: "Confusion: " + set, Table: confusionTable(cells), Folded: i > 0})
		}
	}
	return s
}

// perClassTable leaves out columns that no class has.
func perClassTable(rows []outputs.PerClass) *Table {
	columns := []struct {
		head   Column
		get    func(outputs.PerClass) *float64
		format func(float64) string
		bar    bool
	}{
		{Column{Name: "Accuracy", Note: "share of the rows of this class predicted right (recall)"}, func(p outputs.PerClass) *float64 { return p.Accuracy }, percent, true},
		{Column{Name: "Precision", Note: "share of the rows predicted as this class that have its label"}, func(p outputs.PerClass) *float64 { return p.Precision }, percent, true},
		{Column{Name: "Mean confidence"}, func(p outputs.PerClass) *float64 { return p.MeanConf }, percent, false},
		{Column{Name: "Mean energy", Note: "nats; low = likely"}, func(p outputs.PerClass) *float64 { return p.MeanEnergy }, significant, false},
		{Column{Name: "Classwise ECE"}, func(p outputs.PerClass) *float64 { return p.ClasswiseECE }, four, false},
		{Column{Name: "Set coverage", Note: "share of rows whose conformal set holds the label"}, func(p outputs.PerClass) *float64 { return p.SetCoverage }, percent, false},
	}
	t := &Table{Source: "per_class", Head: []Column{{Name: "Class", Text: true}, {Name: "Rows"}, {Name: "Predicted"}}}
	lines := make([][]Cell, len(rows))
	for i, p := range rows {
		lines[i] = []Cell{{Text: p.ClassName, Note: fmt.Sprintf("class %d", p.Class)}, {Text: count(p.N)}, {Text: count(p.NPredicted)}}
	}
	for _, c := range columns {
		if !slices.ContainsFunc(rows, func(p outputs.PerClass) bool { return c.get(p) != nil }) {
			continue
		}
		t.Head = append(t.Head, c.head)
		for i, p := range rows {
			x := cell(c.get(p), nil, c.format)
			if v := c.get(p); v != nil && c.bar {
				x.Heat = fmt.Sprintf("--bar:%s%%", fixed(100**v, 1))
			}
			lines[i] = append(lines[i], x)
		}
	}
	t.Rows = lines
	return t
}

// confusionTable is the matrix, or the most frequent errors where there are too many classes for it.
func confusionTable(cells []outputs.Confusion) *Table {
	size := int32(0)
	for _, c := range cells {
		size = max(size, c.Label+1, c.Pred+1)
	}
	if size > maxMatrix {
		return confusedPairs(cells)
	}
	names := make([]string, size)
	grid := make([][]int64, size)
	for i := range grid {
		grid[i] = make([]int64, size)
	}
	for _, c := range cells {
		names[c.Label], names[c.Pred] = c.LabelName, c.PredName
		grid[c.Label][c.Pred] = c.Count
	}
	t := &Table{Source: "confusion", Class: "confusion", Head: []Column{{Name: "Label", Text: true}},
		Note: "Rows are true classes, columns predictions. Shade: share of the row; right predictions on the diagonal, errors off it."}
	for _, n := range names {
		t.Head = append(t.Head, Column{Name: n})
	}
	for i, line := range grid {
		total := int64(0)
		for _, n := range line {
			total += n
		}
		row := []Cell{{Text: names[i]}}
		for j, n := range line {
			c := Cell{Text: count(n), Note: fmt.Sprintf("%s predicted as %s: %s of %s", names[i], names[j], count(n), count(total))}
			if n == 0 {
				c.Mark = "none"
			} else {
				share := float64(n) / float64(total)
				if i != j {
					share = min(4*share, 1)
				}
				c.Heat = heat(share, i == j)
			}
			row = append(row, c)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func confusedPairs(cells []outputs.Confusion) *Table {
	wrong := keep(cells, func(c outputs.Confusion) bool { return c.Label != c.Pred && c.Count > 0 })
	slices.SortStableFunc(wrong, func(a, b outputs.Confusion) int { return cmp.Compare(b.Count, a.Count) })
	t := &Table{Source: "confusion", Head: []Column{{Name: "Label", Text: true}, {Name: "Predicted as", Text: true}, {Name: "Rows"}},
		Note: fmt.Sprintf("The %d most frequent errors; the whole matrix is in the table.", min(len(wrong), maxMatrix))}
	for _, c := range wrong[:min(len(wrong), maxMatrix)] {
		t.Rows = append(t.Rows, []Cell{{Text: c.LabelName}, {Text: c.PredName}, {Text: count(c.Count)}})
	}
	return t
}
