package report

import (
	"strings"
	"unicode/utf8"
)

// view is what the template draws: the header and a list of sections made of a few kinds of blocks.
type view struct {
	Report
	Verdict  string
	Findings []Finding
	Tiles    []Tile
	Sections []Section
	Absent   []Absent
}

// Tile is one of the big numbers under the verdict.
type Tile struct {
	Name, Value, Note string
	Anchor            string
}

// Section is one chapter of the page.
type Section struct {
	ID, Title, Lead string
	Short           string // in the navigation; Title where empty
	Blocks          []Block
}

// Block is one of: figures, a table, pictures, or a paragraph. Folded blocks open on a click.
type Block struct {
	Title    string
	Figures  []Figure
	Switch   string // id of the check box that shows logarithmic axes; empty for none
	Table    *Table
	Pictures []Picture
	Source   string // the table that has the numbers of the pictures
	Text     string
	Folded   bool
}

// Table is a table on the page.
type Table struct {
	Head   []Column
	Rows   [][]Cell
	Note   string // below it; may be empty
	Source string // the table that has the numbers
	Class  string
}

// placed is a cell with the head of its column.
type placed struct {
	Cell   Cell
	Column Column
	First  bool // the head of its row
}

// Cells are the rows for the template.
func (t *Table) Cells() [][]placed {
	out := make([][]placed, len(t.Rows))
	for i, row := range t.Rows {
		for j, c := range row {
			out[i] = append(out[i], placed{c, t.Head[j], j == 0})
		}
	}
	return out
}

// Column is the head of one column of a table.
type Column struct {
	Name, Note string
	Text       bool   // words, set to the left
	Group      string // a second head above neighbouring columns with the same one
}

// Group is a head above several columns.
type Group struct {
	Name string
	Span int
}

// Groups are the heads above the columns; nil where there are none.
func (t *Table) Groups() []Group {
	var out []Group
	grouped := false
	for _, c := range t.Head {
		grouped = grouped || c.Group != ""
		if n := len(out); n > 0 && out[n-1].Name == c.Group {
			out[n-1].Span++
			continue
		}
		out = append(out, Group{c.Group, 1})
	}
	if !grouped {
		return nil
	}
	return out
}

// Picture is a thumbnail with its caption.
type Picture struct {
	Image   *Image
	Alt     string
	Lines   []string
	Warning bool // the prediction differs from the label
	Plain   bool // no place is kept for a picture, since its neighbours have none either
}

// Absent says why a section is not on the page.
type Absent struct{ Title, Stage string }

// newView puts the page together.
func newView(r Report) view {
	v := view{Report: r, Verdict: verdict(r), Findings: append(append([]Finding{}, r.Findings...), findings(r)...), Tiles: tiles(r)}
	for _, s := range []struct {
		title, stage string
		make         func(Report) *Section
	}{
		{"Training", "train", trainingSection},
		{"Calibration", "calibrate", calibrationSection},
		{"Out-of-distribution detection", "ood", oodSection},
		{"Classes", "calibrate", classesSection},
		{"Samples", "sgld", samplesSection},
		{"Gallery", "infer", gallerySection},
		{"Data quality", "infer", qualitySection},
	} {
		if made := s.make(r); made != nil {
			v.Sections = append(v.Sections, *made)
		} else {
			v.Absent = append(v.Absent, Absent{s.title, s.stage})
		}
	}
	for i := range v.Sections {
		for j := range v.Sections[i].Blocks {
			v.Sections[i].Blocks[j].locate(r.TablePaths)
		}
	}
	return v
}

// locate replaces the names of tables by where they lie.
func (b *Block) locate(paths map[string]string) {
	for i := range b.Figures {
		b.Figures[i].Table = located(b.Figures[i].Table, paths)
	}
	b.Source = located(b.Source, paths)
	if b.Table != nil {
		b.Table.Source = located(b.Table.Source, paths)
	}
}

func located(name string, paths map[string]string) string {
	if name == "" {
		return ""
	}
	if path := paths[name]; path != "" {
		return path
	}
	if name == "predictions" {
		return "predictions/*/*.parquet"
	}
	return "tables/" + name + ".parquet"
}

// distinct lists what key gives for the rows, each once, in order of appearance.
func distinct[T any](rows []T, key func(T) string) []string {
	var out []string
	seen := make(map[string]bool)
	for _, r := range rows {
		if k := key(r); !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

// keep lists the rows for which want holds.
func keep[T any](rows []T, want func(T) bool) []T {
	var out []T
	for _, r := range rows {
		if want(r) {
			out = append(out, r)
		}
	}
	return out
}

// slug makes an element id of words.
func slug(parts ...string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.Join(parts, "-")) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else {
			b.WriteByte('-')
		}
	}
	return b.String()
}

// readable is a name from a table as words: max_logit becomes max logit, abbreviations become capitals.
func readable(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts {
		switch p {
		case "msp", "gen", "kl", "odin":
			parts[i] = strings.ToUpper(p)
		case "t":
			parts[i] = "(T)"
		}
	}
	return strings.Join(parts, " ")
}

// heading is readable with a capital.
func heading(name string) string {
	text := readable(name)
	_, size := utf8.DecodeRuneInString(text)
	return strings.ToUpper(text[:size]) + text[size:]
}
