package stages

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/onnx/selftest"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/outputs/report"
	"github.com/jempipe/jempipe/pipeline"
)

// ReportKind draws the HTML report.
func ReportKind() pipeline.Kind {
	return pipeline.Kind{
		Name: "report", Version: 3, ReadsConfigText: true,
		Summary: "Draws index.html, one self-contained page, from the tables of the other stages. A section whose stage is not in the file is left out.",
		New:     func() pipeline.Stage { return &Report{Gallery: 8, Samples: 64} },
	}
}

// Report is the configuration of a report stage.
type Report struct {
	Training    pipeline.StageRef `yaml:"training" default:"train" kinds:"train" doc:"Stage whose training curves are drawn."`
	Predictions pipeline.StageRef `yaml:"predictions" default:"infer" kinds:"infer" doc:"Stage whose predictions fill the gallery and the data quality section."`
	Sampling    pipeline.StageRef `yaml:"sampling" default:"sgld" kinds:"sgld" doc:"Stage whose samples are shown."`
	Calibration pipeline.StageRef `yaml:"calibration" default:"calibrate" kinds:"calibrate" doc:"Stage whose calibration is drawn."`
	OOD         pipeline.StageRef `yaml:"ood" default:"ood" kinds:"ood" doc:"Stage whose out-of-distribution comparison is drawn."`
	Gallery     int               `yaml:"gallery" min:"0" max:"32" default:"8" doc:"Pictures in each row of the gallery of worst cases."`
	Samples     int               `yaml:"samples" min:"0" max:"100" default:"64" doc:"Largest number of SGLD samples shown."`
}

// Lint implements pipeline.Stage.
func (s *Report) Lint(lc *pipeline.LintContext) {
	if s.Training == "" && s.Predictions == "" && s.Sampling == "" && s.Calibration == "" && s.OOD == "" {
		lc.Problem("", "no stage to report on: name at least one, such as ood")
	}
	for _, r := range []struct {
		key string
		ref pipeline.StageRef
	}{{"training", s.Training}, {"sampling", s.Sampling}, {"calibration", s.Calibration}, {"ood", s.OOD}} {
		checkSameModel(lc, s.Predictions, r.key, r.ref)
	}
}

// Run implements pipeline.Stage.
func (s *Report) Run(ctx context.Context, rc *pipeline.RunContext) error {
	r := report.Report{Title: filepath.Base(rc.RunDir), Config: string(rc.ConfigText), ConfigPath: filepath.Base(rc.RunRecord().Config.File),
		TablePaths: map[string]string{}}
	r.Facts = facts(rc)
	for _, add := range []func(context.Context, *pipeline.RunContext, *report.Report) error{s.addTraining, s.addCalibration, s.addOOD, s.addSamples, s.addPredictions} {
		if err := add(ctx, rc, &r); err != nil {
			return err
		}
	}
	return report.WriteFile(rc.Dir.Path("index.html"), r)
}

// facts is the header: what made the numbers. It holds no times, so that equal runs give equal pages.
func facts(rc *pipeline.RunContext) []report.Fact {
	rec := rc.RunRecord()
	out := []report.Fact{
		{Name: "jempipe", Value: rec.Tool.Version},
		{Name: "ONNX Runtime", Value: rec.Runtime.Version},
		{Name: "provider", Value: rec.Runtime.Provider},
		{Name: "threads", Value: fmt.Sprint(rec.Runtime.Threads)},
		{Name: "seed", Value: fmt.Sprint(rec.Seed)},
		{Name: "config", Value: short(rec.Config.SHA256), Note: "SHA-256 of the YAML file: " + rec.Config.SHA256},
	}
	for _, info := range rc.Manifests() {
		out = append(out, report.Fact{Name: "stage " + info.Manifest.Stage, Value: short(info.Manifest.OutputHash), Note: "hash of its results: " + info.Manifest.OutputHash})
		out = append(out, modelFacts(info.Manifest.Details)...)
	}
	return out
}

// modelFacts tells how the logits of a model of others were found, and what the test of a gradient graph measured.
func modelFacts(details map[string]json.RawMessage) (out []report.Fact) {
	var from, why string
	if json.Unmarshal(details["logits_from"], &from) == nil {
		out = append(out, report.Fact{Name: "logits are", Value: from})
	}
	if json.Unmarshal(details["no_score"], &why) == nil {
		out = append(out, report.Fact{Name: "no gradient", Value: why, Note: "score_norm and the detector approximate_mass are null"})
	}
	var test selftest.Report
	if json.Unmarshal(details["gradient_test"], &test) == nil && test.Coordinates > 0 {
		out = append(out, report.Fact{Name: "gradient test", Value: fmt.Sprintf("%d derivatives, median difference %.1e", test.Coordinates, test.Median),
			Note: "partial derivatives of the gradient graph against central differences, relative to the largest of each sample"})
	}
	return out
}

func short(hash string) string { return hash[:min(len(hash), 12)] }

// table reads a table of another stage and notes where it lies.
func table[T any](rc *pipeline.RunContext, r *report.Report, ref pipeline.StageRef, name string, into *[]T) error {
	rel := filepath.Join(string(ref), "tables", name+".parquet")
	rows, err := outputs.ReadAll[T](filepath.Join(rc.RunDir, rel))
	if err != nil {
		return err
	}
	*into = rows
	r.TablePaths[name] = filepath.ToSlash(rel)
	return nil
}

func (s *Report) addTraining(_ context.Context, rc *pipeline.RunContext, r *report.Report) error {
	if s.Training == "" {
		return nil
	}
	if cfg, ok := rc.StageConfig(s.Training).(*Train); ok && cfg.Generative() {
		r.GapAlarm = cfg.Guard.GapAlarm
	}
	if err := table(rc, r, s.Training, "training", &r.Training); err != nil {
		return err
	}
	if err := table(rc, r, s.Training, "energies", &r.Energies); err != nil {
		return err
	}
	var err error
	r.Chains, err = newestPicture(rc, s.Training)
	return err
}

func (s *Report) addCalibration(_ context.Context, rc *pipeline.RunContext, r *report.Report) error {
	if s.Calibration == "" {
		return nil
	}
	for _, read := range []func() error{
		func() error { return table(rc, r, s.Calibration, "calibration_metrics", &r.CalibrationMetrics) },
		func() error { return table(rc, r, s.Calibration, "calibration_bins", &r.CalibrationBins) },
		func() error { return table(rc, r, s.Calibration, "recalibration", &r.Recalibration) },
		func() error { return table(rc, r, s.Calibration, "risk_coverage", &r.RiskCoverage) },
		func() error { return table(rc, r, s.Calibration, "per_class", &r.PerClass) },
		func() error { return table(rc, r, s.Calibration, "confusion", &r.Confusion) },
	} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Report) addOOD(_ context.Context, rc *pipeline.RunContext, r *report.Report) error {
	if s.OOD == "" {
		return nil
	}
	for _, read := range []func() error{
		func() error { return table(rc, r, s.OOD, "ood_metrics", &r.OODMetrics) },
		func() error { return table(rc, r, s.OOD, "roc", &r.ROC) },
		func() error { return table(rc, r, s.OOD, "histograms", &r.Histograms) },
		func() error { return table(rc, r, s.OOD, "thresholds", &r.Thresholds) },
	} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// addSamples takes the first chains; the classes of conditional chains alternate.
func (s *Report) addSamples(_ context.Context, rc *pipeline.RunContext, r *report.Report) error {
	if s.Sampling == "" || s.Samples == 0 {
		return nil
	}
	path := filepath.Join(rc.StageDir(s.Sampling), "tables", "samples.parquet")
	meta, err := outputs.ReadMeta(path)
	if err != nil {
		return err
	}
	err = outputs.Read(path, func(rows []outputs.Sample) error {
		for _, row := range rows {
			if row.Chain < int64(s.Samples) {
				r.Samples = append(r.Samples, row)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.TablePaths["samples"] = string(s.Sampling) + "/tables/samples.parquet"
	r.SampleShape = meta.SampleShape
	lo, hi, ok := rangeOf(meta)
	if !ok {
		return fault.New(fault.Data, "samples.parquet", "metadata raw_range is missing").Do("run the stage %s again", s.Sampling)
	}
	r.SampleRange = [2]float64{lo, hi}
	if cfg, ok := rc.StageConfig(s.Sampling).(*SGLD); ok {
		r.SamplesNote = map[string]string{
			"buffer": "Chains start in the replay buffer of training.",
			"noise":  "Chains start in uniform noise.",
			"data":   "Chains start in rows of a data set.",
		}[cfg.Start]
	}
	return nil
}
