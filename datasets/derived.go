package datasets

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
)

// blockRows is the number of rows that a derived set holds at a time; fewer where they exceed the byte limit of a
// batch. Blocks lie at fixed positions of the base set, counted after its skip.
const blockRows = 1024

// derivation is one way to make rows from the rows of another set.
type derivation struct {
	name  string
	keys  []string // keys of Spec that it reads, beside those of every derived set
	draws bool     // draws random numbers
	moves bool     // only moves or mirrors values: uint8 stays uint8
	row   func(b *block, i int, to []float32)
}

var derivations []derivation

func deriveWith(d derivation) {
	derivations = append(derivations, d)
	slices.SortFunc(derivations, func(a, b derivation) int { return cmp.Compare(a.name, b.name) })
}

func findDerivation(name string) (derivation, bool) {
	i := slices.IndexFunc(derivations, func(d derivation) bool { return d.name == name })
	if i < 0 {
		return derivation{}, false
	}
	return derivations[i], true
}

func derivationNames() []string {
	names := make([]string, len(derivations))
	for i, d := range derivations {
		names[i] = d.name
	}
	return names
}

// block is some rows of the base set, with what a derivation needs to know.
type block struct {
	spec   Spec
	lo, hi float64
	width  int
	rows   Rows
	first  int64 // number of the block's first row in the base set
	source keyed.Source
	random *keyed.Stream
}

// of is row i of the block.
func (b *block) of(i int) []float32 { return b.rows.X[i*b.width : (i+1)*b.width] }

// draw returns the random stream of row i.
func (b *block) draw(i int) *keyed.Stream {
	b.source.Seek(b.random, uint64(b.first)+uint64(i), 0)
	return b.random
}

// derive opens an entry that is made from another one.
func (s *Set) derive(name string, spec Spec) (*dataset, error) {
	base, err := s.get(spec.Of)
	if err != nil {
		return nil, err
	}
	how, _ := findDerivation(spec.Derive) // Lint has found it
	info := base.info
	info.Name, info.Labelled, info.Classes = name, false, nil
	if info.Lo >= info.Hi {
		return nil, fault.New(fault.Config, "data."+name+".derive", "the range of %s is not known", spec.Of).
			Do("set data.%s.range to the lowest and highest value that x can have, such as [0, 1]", spec.Of)
	}
	info.Float = base.info.Float || !how.moves
	if !info.Float && !mirrors(info.Lo, info.Hi) {
		return nil, fault.New(fault.Config, "data."+spec.Of+".range", "[%g, %g], wanted whole numbers from 0 to 255: x is uint8", info.Lo, info.Hi)
	}
	d := &dataset{info: info, files: base.files, keep: true, mem: s.mem}
	source := keyed.New(s.seed, "data/"+how.name+"/"+name)
	d.start = func(ctx context.Context) (stream, error) {
		r, err := base.Open(ctx, blockRows)
		if err != nil {
			return nil, err
		}
		b := block{spec: spec, lo: info.Lo, hi: info.Hi, width: info.Width(), source: source, random: source.At(0, 0)}
		return &derivedStream{base: r, how: how, b: b}, nil
	}
	return d, d.cut(spec, base.info.Rows)
}

// mirrors tells whether lo + hi - x of a uint8 within [lo, hi] is a uint8.
func mirrors(lo, hi float64) bool {
	return lo == math.Trunc(lo) && hi == math.Trunc(hi) && lo >= 0 && hi <= math.MaxUint8
}

// derivedStream makes rows block by block.
type derivedStream struct {
	base Reader
	how  derivation
	b    block
	at   int       // next row of the block
	row  []float32 // scratch where the result is uint8
}

// load reads the next block of the base set.
func (s *derivedStream) load() error {
	rec, err := s.base.Next()
	if errors.Is(err, io.EOF) {
		return fault.New(fault.Internal, "data set derived from "+s.b.spec.Of, "it has fewer rows than it said")
	}
	if err != nil {
		return err
	}
	defer rec.Release()
	s.b.first += int64(s.b.rows.Len())
	s.at = 0
	return Decode(rec, &s.b.rows)
}

func (s *derivedStream) read(t *table, n int) error {
	for range n {
		if s.at == s.b.rows.Len() {
			if err := s.load(); err != nil {
				return err
			}
		}
		if err := s.readRow(t, s.at); err != nil {
			return err
		}
		s.at++
	}
	return nil
}

func (s *derivedStream) readRow(t *table, i int) error {
	rows := &s.b.rows
	if t.info.StringID {
		t.texts = append(t.texts, rows.IDStrings[i])
	} else {
		t.ids = append(t.ids, rows.IDs[i])
	}
	if rows.Status[i] != StatusOK { // there is nothing to derive from: the row stays as bad as it is
		return t.add(0, false, []flaw{{status: rows.Status[i], found: rows.Reason[i]}}, nil)
	}
	if t.info.Float {
		s.how.row(&s.b, i, t.floatRow())
		return t.add(0, false, nil, nil)
	}
	if s.row == nil {
		s.row = make([]float32, s.b.width)
	}
	s.how.row(&s.b, i, s.row)
	to := t.byteRow()
	for k, v := range s.row {
		if !(v >= 0 && v <= math.MaxUint8) {
			return fault.New(fault.Data, "data set "+s.b.spec.Of, "sample_id %s has value %g, outside the range [%g, %g]",
				rows.ID(i), s.b.of(i)[k], s.b.lo, s.b.hi).Do("set data.%s.range to the lowest and highest value of x", s.b.spec.Of)
		}
		to[k] = byte(v)
	}
	return t.add(0, false, nil, nil)
}

func (s *derivedStream) skip(n int64) error {
	for n > 0 {
		if s.at == s.b.rows.Len() {
			if err := s.load(); err != nil {
				return err
			}
		}
		step := min(n, int64(s.b.rows.Len()-s.at))
		s.at += int(step)
		n -= step
	}
	return nil
}

// end lets the base set check its own end.
func (s *derivedStream) end() error {
	rec, err := s.base.Next()
	if err == nil {
		rec.Release()
		return fault.New(fault.Internal, "data set derived from "+s.b.spec.Of, "it has more rows than it said")
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (s *derivedStream) Close() error { return s.base.Close() }
