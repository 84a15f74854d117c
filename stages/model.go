package stages

import (
	"context"
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/onnx/intake"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/pipeline"
)

// ModelKind takes in a classifier that others trained, in place of a train stage.
func ModelKind() pipeline.Kind {
	return pipeline.Kind{
		Name: "model", Version: 1,
		Summary: "Takes in a classifier that others trained, in place of a train stage: finds its logits, frees its batch size, builds the preprocessing in, and proves all that on a few rows. Writes models/classifier.onnx (logits, energy, features) and models/head.safetensors, the weights of the last dense layer.",
		New: func() pipeline.Stage {
			return &Model{OutputKind: intake.Auto, Preprocess: InputMap{Scale: 1, Mean: []float64{0}, Std: []float64{1}, Layout: "auto", InputLayout: "auto"},
				ProbeRows: 32, Gradient: "model"}
		},
	}
}

// Model is the configuration of a model stage.
type Model struct {
	ONNX       pipeline.FileRef `yaml:"onnx" required:"true" doc:"The model file. Its weights may be in files beside it."`
	Data       pipeline.DataRef `yaml:"data" required:"true" default:"valid|test" doc:"Data set of the kind that the model takes: it gives the shape and range of raw samples and the names of the classes, and its first rows are the probe."`
	Input      string           `yaml:"input" doc:"Name of the input that takes the samples, to make sure; a model with several inputs is refused."`
	Output     string           `yaml:"output" doc:"Output, or other value of the graph, with the logits. Default: found; a final Softmax, LogSoftmax or Sigmoid is taken off."`
	OutputKind string           `yaml:"output_kind" enum:"auto|logits|probabilities" default:"auto" doc:"What output holds. logits: it is taken as it is; probabilities: where nothing can be taken off, logits are their logarithms, and the energy, which they do not hold, is null. auto: probabilities are known by their sums on the probe."`
	Features   string           `yaml:"features" doc:"Value of the graph that becomes the output features [N, F], for detectors that use features. Default: the input of the last dense layer."`
	ClassNames []string         `yaml:"class_names" doc:"Names of the classes in the order of the logits. Default: those of the data set, else those in the file, else numbers."`
	Preprocess InputMap         `yaml:"preprocess" doc:"How raw values become the input that the model was trained on. Built into the exported graphs."`
	Gradient   string           `yaml:"gradient" enum:"model|raw" default:"model" doc:"With respect to what the score is the gradient: the preprocessed sample, or the raw one."`
	Score      pipeline.FileRef `yaml:"score" doc:"A gradient graph that others made: an ONNX file that takes what the model takes and gives the gradient of logsumexp of its logits for each sample. It is tested like our own and takes its place. Default: built from the model."`
	ProbeRows  int              `yaml:"probe_rows" min:"2" max:"4096" default:"32" doc:"Rows of data that assumptions are proved on."`
}

// InputMap is how raw values become a model's input: (raw * scale - mean) / std, in the layout of the input.
type InputMap struct {
	Scale       float64   `yaml:"scale" above:"0" default:"1" doc:"Factor applied to raw values first, such as 0.00392156862745098 (1/255)."`
	Mean        []float64 `yaml:"mean" default:"[0]" doc:"Subtracted after scaling: one number, or one a channel."`
	Std         []float64 `yaml:"std" above:"0" default:"[1]" doc:"Divisor after that: one number, or one a channel."`
	Layout      string    `yaml:"layout" enum:"auto|hw|hwc|chw|flat" default:"auto" doc:"How a raw sample lies in memory. auto: [D] is flat, [H,W] is hw, [H,W,C] with 1, 3 or 4 channels is hwc, other three dimensions are chw."`
	InputLayout string    `yaml:"input_layout" enum:"auto|chw|hwc" default:"auto" doc:"How the model wants it: channels first (NCHW) or last (NHWC). auto: told by the shapes. A model with a flat input takes values in the raw order unless this says otherwise."`
}

// Lint implements pipeline.Stage.
func (s *Model) Lint(lc *pipeline.LintContext) {
	if s.Score != "" && s.OutputKind == intake.Probabilities {
		lc.Problem("score", "a model that gives probabilities has no density, so no gradient of it")
	}
	if n := len(s.ClassNames); n == 1 {
		lc.Problem("class_names", "one name; a classifier has two classes or more")
	}
	checkDistinct(lc, "class_names", s.ClassNames)
}

// CheckData implements pipeline.DataChecker.
func (s *Model) CheckData(dc *pipeline.DataContext) []error {
	info, ok := dc.Data(s.Data)
	if !ok || s.ClassNames == nil || !info.Labelled || info.Classes == nil || len(info.Classes) == len(s.ClassNames) {
		return nil
	}
	return []error{fault.New(fault.Config, "stages."+dc.Name()+".class_names", "%d names; data.%s has %d classes", len(s.ClassNames), info.Name, len(info.Classes))}
}

// MoreFiles implements pipeline.FileLister.
func (s *Model) MoreFiles(path func(pipeline.FileRef) string) ([]string, error) {
	var all []string
	for _, ref := range []pipeline.FileRef{s.ONNX, s.Score} {
		if ref == "" {
			continue
		}
		more, err := ir.ExternalFiles(path(ref))
		if err != nil {
			continue // Run tells what is wrong with the file
		}
		all = append(all, more...)
	}
	return all, nil
}

// Try implements pipeline.Trial: it takes the model in, builds its gradient and tests it.
func (s *Model) Try(ctx context.Context, tc *pipeline.TrialContext) ([]string, error) {
	ds, err := tc.Open(s.Data)
	if err != nil {
		return nil, err
	}
	rt, err := tc.Runtime()
	if err != nil {
		return nil, err
	}
	m, err := s.adapt(ctx, rt, ds, tc.File(s.ONNX))
	if err != nil {
		return nil, err
	}
	notes := m.notes()
	score, err := s.gradientOf(m, tc.File)
	if err != nil && s.Score != "" {
		return notes, err
	}
	if err != nil {
		return append(notes, "no gradient: "+err.Error()), nil
	}
	report, err := m.selfTest(ctx, rt, score, m.probe, keyed.New(tc.Seed(), "stage "+tc.Name()).Seed(0))
	if err != nil {
		return notes, err
	}
	if report.Note != "" {
		notes = append(notes, "gradient: "+report.Note)
	}
	if report.Coordinates == 0 {
		return notes, nil
	}
	return append(notes, fmt.Sprintf("gradient: %d partial derivatives agree with central differences (median error %.2g), alone and in a batch (%.2g)",
		report.Coordinates, report.Median, report.Alone)), nil
}

// Run implements pipeline.Stage.
func (s *Model) Run(ctx context.Context, rc *pipeline.RunContext) error {
	ds, err := rc.Data.Get(string(s.Data))
	if err != nil {
		return err
	}
	rt, err := rc.Runtime()
	if err != nil {
		return err
	}
	m, err := s.adapt(ctx, rt, ds, rc.File(s.ONNX))
	if err != nil {
		return err
	}
	for _, note := range m.notes() {
		rc.Log.Info("model taken in", "note", note)
	}
	rc.Detail("logits_from", m.From)
	rc.Detail("classes", m.Classes)
	rc.Detail("features", m.Features)
	rc.Detail("batch", m.Batch)
	if len(m.Notes) > 0 {
		rc.Detail("notes", m.Notes)
	}
	if m.EnergyReason != "" {
		rc.Detail("energy", m.EnergyReason)
	}
	if s.Score != "" {
		rc.Detail("score_sha256", rc.FileHash(s.Score))
	}
	meta := m.facts()
	meta["source_sha256"], meta["tool_version"] = rc.FileHash(s.ONNX), rc.ToolVersion
	ir.SetMetadata(m.Model, meta)
	if err := writeModel(rc.Dir.Path("models", classifierFile), m.Model); err != nil {
		return err
	}
	if s.Score != "" {
		supplied, err := s.gradientOf(m, rc.File)
		if err != nil {
			return err
		}
		if err := writeModel(rc.Dir.Path("models", suppliedFile), supplied); err != nil {
			return err
		}
	}
	if h := m.Head; h != nil {
		return writeSafetensors(rc.Dir.Path("models", headFile), headParams(h), map[string]string{"features": fmt.Sprint(h.In)})
	}
	return nil
}

// gradientOf is the model with its score: built, or the one that was supplied.
func (s *Model) gradientOf(m *foreign, path func(pipeline.FileRef) string) (*onnxpb.ModelProto, error) {
	if s.Score != "" {
		return m.Attach(path(s.Score), m.raw)
	}
	return m.score()
}

// adapt takes the model in, with the first rows of the data set as the probe.
func (s *Model) adapt(ctx context.Context, rt *ort.Runtime, ds datasets.Dataset, path string) (*foreign, error) {
	info := ds.Info()
	rows, err := readFirst(ctx, ds, s.ProbeRows)
	if err != nil {
		return nil, err
	}
	if rows.Len() < 2 {
		return nil, fault.New(fault.Data, "data."+info.Name, "%d usable rows at its start, want two or more to prove the model on", rows.Len())
	}
	cfg := intake.Config{Input: s.Input, Output: s.Output, Kind: s.OutputKind, Features: s.Features, Preprocess: s.Preprocess.on(info.Shape)}
	c, err := intake.Open(ctx, rt, path, cfg, rows.X)
	if err != nil {
		return nil, err
	}
	m := &foreign{Classifier: c, supplied: string(s.Score), lo: info.Lo, hi: info.Hi, raw: s.Gradient == "raw", probe: rows.X, path: path}
	m.names, err = s.classNames(c, info)
	return m, err
}

// on is the map for raw samples of a shape.
func (p InputMap) on(shape []int) lower.Preprocess {
	out := lower.Preprocess{Scale: p.Scale, Mean: p.Mean, Std: p.Std, Layout: p.Layout, SampleShape: shape, InputLayout: p.InputLayout}
	if out.Layout == "auto" {
		out.Layout = guessLayout(shape)
	}
	if out.InputLayout == "auto" {
		out.InputLayout = ""
	}
	return out
}

// classNames settles the names of the classes.
func (s *Model) classNames(c *intake.Classifier, info datasets.Info) ([]string, error) {
	numbers := make([]string, c.Classes)
	for k := range numbers {
		numbers[k] = fmt.Sprint(k)
	}
	switch {
	case s.ClassNames != nil:
		if len(s.ClassNames) != c.Classes {
			return nil, fault.New(fault.Config, string(s.ONNX), "class_names has %d names, the model gives %d logits", len(s.ClassNames), c.Classes)
		}
		return s.ClassNames, nil
	case info.Labelled && info.Classes != nil && len(info.Classes) != c.Classes:
		return nil, fault.New(fault.Data, "data."+info.Name, "%d classes, the model %s gives %d logits", len(info.Classes), s.ONNX, c.Classes).
			Do("name the right output of the model, or the data set that belongs to it")
	case info.Classes != nil && len(info.Classes) == c.Classes && (c.Names == nil || slices.Equal(c.Names, numbers) || slices.Equal(c.Names, info.Classes)):
		return info.Classes, nil
	case c.Names != nil:
		return c.Names, nil
	}
	return numbers, nil
}
