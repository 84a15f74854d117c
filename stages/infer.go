package stages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/score"
)

// InferKind scores data sets with an exported model.
func InferKind() pipeline.Kind {
	return pipeline.Kind{
		Name: "infer", Version: 2,
		Summary: "Runs the exported model over data sets and writes predictions/dataset=NAME/part-*.parquet: logits, energies and detector scores, a row for each input row.",
		New:     func() pipeline.Stage { return &Infer{BatchSize: 256, PartRows: 1 << 20, Score: true} },
	}
}

// Infer is the configuration of an infer stage.
type Infer struct {
	Model     pipeline.StageRef  `yaml:"model" required:"true" default:"export" kinds:"export" doc:"Stage whose ONNX files are run."`
	ID        []pipeline.DataRef `yaml:"id" required:"true" doc:"Data sets of the distribution that the model was trained on; role id in the tables."`
	OOD       []pipeline.DataRef `yaml:"ood" doc:"Data sets from elsewhere; role ood. Their labels, if any, belong to another label space and become null."`
	Score     bool               `yaml:"score" default:"true" doc:"Run score.onnx, which gives score_norm and the detector approximate_mass; false runs classifier.onnx, about three times faster. A model without a gradient is run without, and these are null."`
	BatchSize int                `yaml:"batch_size" min:"1" max:"65536" default:"256" doc:"Rows of a call. Batches are cut at fixed row positions; another size may change logits in the last bits."`
	PartRows  int64              `yaml:"part_rows" min:"1" default:"1048576" doc:"Rows of a Parquet file before the next one is begun."`
}

// Lint implements pipeline.Stage.
func (s *Infer) Lint(lc *pipeline.LintContext) {
	checkDistinct(lc, "id", s.ID)
	checkDistinct(lc, "ood", s.OOD)
	for _, r := range s.OOD {
		if slices.Contains(s.ID, r) {
			lc.Problem("ood", "%s is in id too", r)
		}
	}
}

// CheckData implements pipeline.DataChecker.
func (s *Infer) CheckData(dc *pipeline.DataContext) (errs []error) {
	trained, ok := trainingData(dc, s.Model)
	if !ok {
		return nil
	}
	for i, ref := range append(slices.Clone(s.ID), s.OOD...) {
		if info, ok := dc.Data(ref); ok {
			if err := fits(info, infoModel(trained), i < len(s.ID)); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// Run implements pipeline.Stage.
func (s *Infer) Run(ctx context.Context, rc *pipeline.RunContext) error {
	m, err := s.open(rc)
	if err != nil {
		return err
	}
	defer m.session.Close()
	sets := append(slices.Clone(s.ID), s.OOD...)
	for _, ref := range sets {
		ds, err := rc.Data.Get(string(ref))
		if err != nil {
			return err
		}
		m.textIDs = m.textIDs || ds.Info().StringID
	}
	for i, ref := range sets {
		role := outputs.RoleID
		if i >= len(s.ID) {
			role = outputs.RoleOOD
		}
		started := time.Now()
		n, err := s.dataset(ctx, rc, m, ref, role)
		if err != nil {
			return err
		}
		rc.Measure("rows_per_second_"+string(ref), float64(n)/time.Since(started).Seconds())
	}
	return nil
}

// inferModel is the loaded model with what its metadata tells.
type inferModel struct {
	session *ort.Session
	batch   int // the only batch size that the model takes; 0: any
	path    string
	hash    string
	modelData
	shown    [2]float64 // range of raw values for pictures
	textIDs  bool       // sample_id is text in all tables, since some data set has text ids
	width    int        // elements of a score
	score    bool
	threads  int
	noEnergy string // why the logits hold no density; "" where they do
	noScore  string // why there are no gradients; "" where there are

	detectors []score.Detector // those that predictions has a column for
}

func (s *Infer) open(rc *pipeline.RunContext) (inferModel, error) {
	file := classifierFile
	if s.Score {
		file = scoreFile
	}
	m := inferModel{path: modelPath(rc, s.Model, file), score: s.Score}
	if _, err := os.Stat(m.path); s.Score && errors.Is(err, fs.ErrNotExist) { // the export stage says why there is none
		m.path, m.score = modelPath(rc, s.Model, classifierFile), false
	}
	for _, name := range outputs.Detectors() {
		if d, ok := score.FindDetector(name); ok {
			m.detectors = append(m.detectors, d)
		}
	}
	data, err := os.ReadFile(m.path)
	if err != nil {
		return m, fault.New(fault.Data, m.path, "cannot be read").Because(err)
	}
	sum := sha256.Sum256(data)
	m.hash = hex.EncodeToString(sum[:])
	rt, err := rc.Runtime()
	if err != nil {
		return m, err
	}
	m.threads = rt.Info().Threads
	if m.session, err = rt.Session(data, ort.SessionOptions{Threads: 1, Name: m.path}); err != nil {
		return m, err
	}
	if err := m.describe(); err != nil {
		m.session.Close()
		return m, err
	}
	switch {
	case m.score:
	case m.noEnergy != "":
		m.noScore = m.noEnergy
	case s.Score:
		m.noScore = noGradient
	default:
		m.noScore = notComputed
	}
	if s.Score && !m.score {
		rc.Detail("no_score", m.session.Metadata()[noScoreKey])
	}
	return m, nil
}

// describe reads classes and shapes from the model's metadata and inputs.
func (m *inferModel) describe() error {
	if err := json.Unmarshal([]byte(m.session.Metadata()["class_names"]), &m.classes); err != nil || len(m.classes) == 0 {
		return fault.New(fault.Data, m.path, "metadata class_names is missing or no list of names")
	}
	var ends []float64
	if err := json.Unmarshal([]byte(m.session.Metadata()[rangeKey]), &ends); err != nil || len(ends) != 2 {
		return fault.New(fault.Data, m.path, "metadata %s is missing or no list of two numbers", rangeKey)
	}
	m.lo, m.hi = ends[0], ends[1]
	shown := bundle{Lo: m.lo, Hi: m.hi}
	if err := json.Unmarshal([]byte(m.session.Metadata()["preprocessing"]), &shown.Preprocess); err != nil {
		return fault.New(fault.Data, m.path, "metadata preprocessing").Because(err)
	}
	m.shown[0], m.shown[1] = shown.rawRange()
	in := m.session.Inputs()
	if len(in) != 1 || len(in[0].Shape) < 2 {
		return fault.New(fault.Data, m.path, "inputs %v, want one tensor [N, ...]", in)
	}
	for _, d := range in[0].Shape[1:] {
		m.shape = append(m.shape, int(d))
	}
	m.batch = int(max(0, in[0].Shape[0]))
	if text, ok := m.session.Metadata()[foreignKey]; ok {
		var facts foreignFacts
		if err := json.Unmarshal([]byte(text), &facts); err != nil {
			return fault.New(fault.Data, m.path, "metadata %s", foreignKey).Because(err)
		}
		m.noEnergy = facts.EnergyReason
	}
	m.width = 1
	for _, v := range m.session.Outputs() {
		if v.Name == "score" {
			for _, d := range v.Shape[1:] {
				m.width *= int(d)
			}
		}
	}
	return nil
}

// dataset scores one data set and gives the number of rows.
func (s *Infer) dataset(ctx context.Context, rc *pipeline.RunContext, m inferModel, ref pipeline.DataRef, role string) (int64, error) {
	ds, err := rc.Data.Get(string(ref))
	if err != nil {
		return 0, err
	}
	info := ds.Info()
	if err := fits(info, m.modelData, role == outputs.RoleID); err != nil {
		return 0, err
	}
	if m.textIDs {
		return scoreDataset[string](ctx, rc, s, m, ds, role)
	}
	return scoreDataset[int64](ctx, rc, s, m, ds, role)
}
