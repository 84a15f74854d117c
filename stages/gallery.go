package stages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/outputs/report"
	"github.com/jempipe/jempipe/pipeline"
)

// rangeKey is the metadata key of the range of raw values, a list of two numbers, in tables and in model files.
const rangeKey = "raw_range"

// rangeOf is the range of raw values that a table's metadata tells.
func rangeOf(meta outputs.Meta) (lo, hi float64, ok bool) {
	var ends []float64
	if err := json.Unmarshal([]byte(meta.Extra[rangeKey]), &ends); err != nil || len(ends) != 2 || !(ends[0] < ends[1]) {
		return 0, 0, false
	}
	return ends[0], ends[1], true
}

// qualityRow is what the report reads of a prediction.
type qualityRow struct {
	Role         string   `parquet:"role,dict"`
	Label        *int32   `parquet:"label,optional"`
	LabelName    *string  `parquet:"label_name,optional,dict"`
	PredName     *string  `parquet:"pred_name,optional,dict"`
	Correct      *bool    `parquet:"correct,optional"`
	Confidence   *float64 `parquet:"confidence,optional"`
	Energy       *float64 `parquet:"energy,optional"`
	Status       string   `parquet:"status,dict"`
	StatusReason *string  `parquet:"status_reason,optional,dict"`
	Tie          *bool    `parquet:"tie,optional"`

	// The fields of scoreRow once more: of an embedded struct, the Parquet reader gives zeros for nulls.
	MSP             *float64 `parquet:"ood_msp,optional"`
	MaxLogit        *float64 `parquet:"ood_max_logit,optional"`
	OODEnergy       *float64 `parquet:"ood_energy,optional"`
	Entropy         *float64 `parquet:"ood_entropy,optional"`
	Margin          *float64 `parquet:"ood_margin,optional"`
	ApproximateMass *float64 `parquet:"ood_approximate_mass,optional"`
}

func (r *qualityRow) scores() *scoreRow {
	return &scoreRow{MSP: r.MSP, MaxLogit: r.MaxLogit, Energy: r.OODEnergy, Entropy: r.Entropy, Margin: r.Margin, ApproximateMass: r.ApproximateMass}
}

// candidate is a row that may be shown.
type candidate struct {
	at   int64
	rank float64 // larger is shown first
	row  qualityRow
}

// best keeps the n candidates of the highest rank; among equals the first of the data set.
type best struct {
	n    int
	list []candidate
}

func (b *best) offer(at int64, rank float64, row *qualityRow) {
	if b.n == 0 || len(b.list) == b.n && rank <= b.list[b.n-1].rank {
		return
	}
	i, _ := slices.BinarySearchFunc(b.list, rank, func(c candidate, rank float64) int {
		if c.rank >= rank {
			return -1
		}
		return 1
	})
	b.list = slices.Insert(b.list, i, candidate{at, rank, *row})
	b.list = b.list[:min(len(b.list), b.n)]
}

// addPredictions fills the data quality section and the gallery.
func (s *Report) addPredictions(ctx context.Context, rc *pipeline.RunContext, r *report.Report) error {
	cfg, ok := rc.StageConfig(s.Predictions).(*Infer)
	if s.Predictions == "" || !ok {
		return nil
	}
	r.TablePaths["predictions"] = string(s.Predictions) + "/predictions/*/*.parquet"
	for i, ref := range append(slices.Clone(cfg.ID), cfg.OOD...) {
		id := i < len(cfg.ID)
		if err := s.addDataset(ctx, rc, r, string(ref), id); err != nil {
			return err
		}
	}
	return nil
}

func (s *Report) addDataset(ctx context.Context, rc *pipeline.RunContext, r *report.Report, name string, id bool) error {
	set, err := openPredictions(rc.StageDir(s.Predictions), name)
	if err != nil {
		return err
	}
	d := report.Dataset{Name: name, Role: outputs.RoleID, Rows: set.Rows}
	if !id {
		d.Role = outputs.RoleOOD
	}
	wrong, strange, familiar := best{n: s.Gallery}, best{n: s.Gallery}, best{n: s.Gallery}
	constant := newConstants()
	err = eachRow(ctx, set, func(at int64, row *qualityRow) error {
		count(&d, row)
		constant.see(row.scores())
		if row.Correct != nil && !*row.Correct {
			wrong.offer(at, *row.Confidence, row)
		}
		if row.Energy != nil {
			strange.offer(at, *row.Energy, row)
			familiar.offer(at, -*row.Energy, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.Constant = constant.names()
	if d.Duplicates, err = duplicates(ctx, set); err != nil {
		return err
	}
	r.Datasets = append(r.Datasets, d)
	groups := []struct {
		title, note string
		rows        []candidate
	}{{"Most confident and wrong: " + name, "Wrong predictions with the highest confidence.", wrong.list},
		{"Most OOD-like in-distribution rows: " + name, "Highest energy.", strange.list}}
	if !id {
		groups = groups[:0]
		groups = append(groups, struct {
			title, note string
			rows        []candidate
		}{"Most ID-like out-of-distribution rows: " + name, "Lowest energy.", familiar.list})
	}
	for _, g := range groups {
		items, err := galleryItems(ctx, rc, name, set.Meta, g.rows)
		if err != nil {
			return err
		}
		if len(items) > 0 {
			r.Gallery = append(r.Gallery, report.GalleryGroup{Title: g.title, Note: g.note, Items: items})
		}
	}
	return nil
}

func count(d *report.Dataset, row *qualityRow) {
	if row.Label == nil {
		d.Unlabelled++
	}
	if row.Confidence != nil && *row.Confidence == 1 {
		d.Saturated++
	}
	if row.Tie != nil && *row.Tie {
		d.Ties++
	}
	if row.Status == datasets.StatusOK {
		return
	}
	i := slices.IndexFunc(d.NotOK, func(s report.StatusCount) bool { return s.Status == row.Status })
	if i < 0 {
		i = len(d.NotOK)
		d.NotOK = append(d.NotOK, report.StatusCount{Status: row.Status})
		if row.StatusReason != nil {
			d.NotOK[i].Reason = *row.StatusReason
		}
	}
	d.NotOK[i].Count++
}

// constants finds detectors with one and the same score for every row.
type constants struct {
	detectors []string
	first     map[string]float64
	varies    map[string]bool
	rows      int
}

func newConstants() *constants {
	return &constants{outputs.Detectors(), map[string]float64{}, map[string]bool{}, 0}
}

func (c *constants) see(row *scoreRow) {
	c.rows++
	for _, name := range c.detectors {
		v := row.get(name)
		if v == nil {
			continue
		}
		if first, ok := c.first[name]; !ok {
			c.first[name] = *v
		} else if first != *v {
			c.varies[name] = true
		}
	}
}

func (c *constants) names() []string {
	var out []string
	for _, name := range c.detectors {
		if _, seen := c.first[name]; seen && !c.varies[name] && c.rows > 1 {
			out = append(out, name)
		}
	}
	return out
}

// duplicates counts the rows whose sample_id occurred before, at 8 bytes a row: text ids count by their 64-bit hash.
func duplicates(ctx context.Context, set predictionSet) (int64, error) {
	text, err := outputs.HasStringID(set.Parts[0].Path)
	if err != nil {
		return 0, err
	}
	var keys []uint64
	if text {
		err = eachRow(ctx, set, func(_ int64, r *struct {
			ID string `parquet:"sample_id"`
		}) error {
			h := fnv.New64a()
			io.WriteString(h, r.ID) // a hash never fails
			keys = append(keys, h.Sum64())
			return nil
		})
	} else {
		err = eachRow(ctx, set, func(_ int64, r *struct {
			ID int64 `parquet:"sample_id"`
		}) error {
			keys = append(keys, uint64(r.ID))
			return nil
		})
	}
	slices.Sort(keys)
	return int64(len(keys) - len(slices.Compact(keys))), err
}

// galleryItems fetches the inputs of the candidates in one pass over the data set.
func galleryItems(ctx context.Context, rc *pipeline.RunContext, name string, meta outputs.Meta, rows []candidate) ([]report.GalleryItem, error) {
	ds, err := rc.Data.Get(name)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	items := make([]report.GalleryItem, len(rows))
	for i, c := range rows {
		items[i] = report.GalleryItem{Dataset: name, Label: value(c.row.LabelName), Pred: value(c.row.PredName),
			Scores: []report.Score{{Name: "confidence", Value: orNaN(c.row.Confidence)}, {Name: "energy", Value: orNaN(c.row.Energy)}}}
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(rows[a].at, rows[b].at) })
	info := ds.Info()
	lo, hi := info.Lo, info.Hi
	if l, h, ok := rangeOf(meta); ok {
		lo, hi = l, h
	}
	err = rowsAt(ctx, ds, func(i int) (int64, bool) {
		if i == len(order) {
			return 0, false
		}
		return rows[order[i]].at, true
	}, func(i int, id string, x []float32) {
		items[order[i]].ID = id
		if img, err := report.Thumb(x, info.Shape, lo, hi); err == nil { // what is no picture is listed without one
			items[order[i]].Image = &img
		}
	})
	return items, err
}

// rowsAt visits rows at rising positions: next gives the i-th position.
func rowsAt(ctx context.Context, ds datasets.Dataset, next func(i int) (int64, bool), visit func(i int, id string, x []float32)) error {
	r, err := ds.Open(ctx, 1024)
	if err != nil {
		return err
	}
	defer r.Close()
	var rows datasets.Rows
	width := ds.Info().Width()
	i, start := 0, int64(0)
	for {
		at, ok := next(i)
		if !ok {
			return nil
		}
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("data set %s ends before row %d, which has a prediction", ds.Info().Name, at)
		}
		if err != nil {
			return err
		}
		err = datasets.Decode(rec, &rows)
		rec.Release()
		if err != nil {
			return err
		}
		end := start + int64(rows.Len())
		for ok && at < end {
			j := int(at - start)
			visit(i, rows.ID(j), rows.X[j*width:(j+1)*width])
			i++
			at, ok = next(i)
		}
		start = end
	}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
