package stages

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/score"
)

// CalibrateKind fits a temperature and measures how far confidences can be trusted.
func CalibrateKind() pipeline.Kind {
	return pipeline.Kind{
		Name: "calibrate", Version: 1,
		Summary: "Fits a temperature on one labelled data set and measures calibration on others, before and after: tables recalibration, calibration_metrics, calibration_bins, risk_coverage, confusion and per_class.",
		New:     func() pipeline.Stage { return &Calibrate{Bins: score.DefaultBins} },
	}
}

// Calibrate is the configuration of a calibrate stage.
type Calibrate struct {
	Predictions pipeline.StageRef  `yaml:"predictions" required:"true" default:"infer" kinds:"infer" doc:"Stage whose predictions are read."`
	Fit         pipeline.DataRef   `yaml:"fit" required:"true" default:"valid" doc:"Labelled data set that the temperature is fitted on. Its logits are held in memory."`
	Evaluate    []pipeline.DataRef `yaml:"evaluate" required:"true" doc:"Labelled data sets that calibration is measured on. The one it was fitted on is refused."`
	Bins        int                `yaml:"bins" min:"1" max:"1000" default:"15" doc:"Bins of the reliability tables and of the calibration errors."`
}

// Lint implements pipeline.Stage.
func (c *Calibrate) Lint(lc *pipeline.LintContext) {
	checkScored(lc, "fit", c.Predictions, c.Fit)
	checkScored(lc, "evaluate", c.Predictions, c.Evaluate...)
	checkDistinct(lc, "evaluate", c.Evaluate)
	if slices.Contains(c.Evaluate, c.Fit) {
		lc.Problem("evaluate", "%s is also the data set of fit: a map must not be judged on the rows that it was fitted on", c.Fit)
	}
}

// CheckData implements pipeline.DataChecker.
func (c *Calibrate) CheckData(dc *pipeline.DataContext) (errs []error) {
	for _, ref := range append([]pipeline.DataRef{c.Fit}, c.Evaluate...) {
		if info, ok := dc.Data(ref); ok && !info.Labelled {
			errs = append(errs, fault.New(fault.Data, "data."+info.Name, "no labels: stage %s cannot measure calibration on it", dc.Name()))
		}
	}
	return errs
}

// logitRow is what calibration reads of a prediction.
type logitRow struct {
	Label  *int32    `parquet:"label,optional"`
	Logits []float32 `parquet:"logits,optional,list"`
	Energy *float64  `parquet:"energy,optional"`
}

// Run implements pipeline.Stage.
func (c *Calibrate) Run(ctx context.Context, rc *pipeline.RunContext) error {
	fit, meta, err := c.fit(ctx, rc)
	if err != nil {
		return err
	}
	if fit.Reason == "" {
		rc.Detail("temperature", fit.T)
	} else {
		rc.Log.Warn("no temperature could be fitted", "fit", c.Fit, "reason", fit.Reason)
	}
	rc.Detail("hit_bound", fit.HitBound)
	if fit.HitBound {
		rc.Log.Warn("the temperature ended at a bound of its search and cannot be trusted", "temperature", fit.T, "fit", c.Fit)
	}
	var t calibrationTables
	t.recalibration = []outputs.Recalibration{{Map: outputs.MapTemperature, Parameter: "temperature", Value: outputs.Defined(fit.T), HitBound: fit.HitBound,
		FitDataset: string(c.Fit), N: fit.N, NLLBefore: outputs.Defined(fit.NLLBefore), NLLAfter: outputs.Defined(fit.NLLAfter), Reason: text(fit.Reason)}}
	for _, ref := range c.Evaluate {
		if err := c.evaluate(ctx, rc, string(ref), fit.T, &t); err != nil {
			return err
		}
	}
	return t.write(rc, meta)
}

func (c *Calibrate) fit(ctx context.Context, rc *pipeline.RunContext) (score.TemperatureFit, outputs.Meta, error) {
	set, err := openPredictions(rc.StageDir(c.Predictions), string(c.Fit))
	if err != nil {
		return score.TemperatureFit{}, outputs.Meta{}, err
	}
	var logits []float32
	var labels []int32
	err = eachRow(ctx, set, func(_ int64, r *logitRow) error {
		if r.Label != nil && r.Logits != nil {
			logits, labels = append(logits, r.Logits...), append(labels, *r.Label)
		}
		return nil
	})
	if err != nil {
		return score.TemperatureFit{}, set.Meta, err
	}
	if len(labels) == 0 {
		return score.TemperatureFit{}, set.Meta, fault.New(fault.Data, "data."+set.Dataset, "no row with a label and logits: there is nothing to fit a temperature on").
			Do("fit on a labelled data set")
	}
	fit, err := score.FitTemperature(logits, len(set.Meta.ClassNames), labels)
	return fit, set.Meta, err
}

// calibrationTables are the tables under construction.
type calibrationTables struct {
	recalibration []outputs.Recalibration
	metrics       []outputs.CalibrationMetric
	bins          []outputs.CalibrationBin
	risk          []outputs.RiskCoverage
	confusion     []outputs.Confusion
	perClass      []outputs.PerClass
}

func (t *calibrationTables) write(rc *pipeline.RunContext, meta outputs.Meta) error {
	meta = tableMeta(rc, meta.ModelHash, meta.ClassNames)
	for _, write := range []func() error{
		func() error { return writeTable(rc, "recalibration", meta, t.recalibration) },
		func() error { return writeTable(rc, "calibration_metrics", meta, t.metrics) },
		func() error { return writeTable(rc, "calibration_bins", meta, t.bins) },
		func() error { return writeTable(rc, "risk_coverage", meta, t.risk) },
		func() error { return writeTable(rc, "confusion", meta, t.confusion) },
		func() error { return writeTable(rc, "per_class", meta, t.perClass) },
	} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// evaluate measures one data set, as the model is and with the temperature.
func (c *Calibrate) evaluate(ctx context.Context, rc *pipeline.RunContext, dataset string, temperature float64, t *calibrationTables) error {
	set, err := openPredictions(rc.StageDir(c.Predictions), dataset)
	if err != nil {
		return err
	}
	classes := set.Meta.ClassNames
	before := score.NewCalibration(len(classes), c.Bins, 1)
	after := score.NewCalibration(len(classes), c.Bins, temperature)
	energy := make([]score.Sum, len(classes))
	if set.Meta.Extra[noEnergyKey] != "" {
		energy = nil // no row has one
	}
	skipped := int64(0)
	err = eachRow(ctx, set, func(_ int64, r *logitRow) error {
		if r.Label == nil || r.Logits == nil {
			skipped++
			return nil
		}
		after.Add(r.Logits, *r.Label)
		if before.Add(r.Logits, *r.Label) == "" && energy != nil {
			energy[*r.Label].Add(*r.Energy)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if before.N() == 0 {
		rc.Log.Warn("no labelled row to measure calibration on", "data", dataset, "rows", set.Rows)
	}
	t.addMetrics(dataset, outputs.MapUncalibrated, before, skipped, c.Bins)
	t.addMetrics(dataset, outputs.MapTemperature, after, skipped, c.Bins)
	t.addClasses(dataset, classes, before, energy)
	t.addRisk(dataset, before)
	return nil
}

// addMetrics adds metrics and bins of one data set under one map.
func (t *calibrationTables) addMetrics(dataset, mapping string, c *score.Calibration, skipped int64, bins int) {
	type binning struct {
		scheme, closed, norm string
		bins                 int
	}
	dropped := dropReasons(c, skipped)
	add := func(name, scope string, m score.Metric, b binning) {
		r := outputs.CalibrationMetric{Dataset: dataset, Map: mapping, Metric: name, Scope: scope, Value: outputs.Defined(m.Value),
			CILow: outputs.Defined(m.CILow), CIHigh: outputs.Defined(m.CIHigh), CIMethod: text(m.CIMethod), N: c.N(), NDropped: c.NDropped() + skipped, DropReasons: dropped, Reason: text(m.Reason)}
		if b.scheme != "" {
			r.Scheme, r.Closed, r.Norm, r.NBins = &b.scheme, &b.closed, &b.norm, new(int32(b.bins))
		}
		t.metrics = append(t.metrics, r)
	}
	none, width := binning{}, func(norm string) binning { return binning{"equal_width", "right", norm, bins} }
	table, mass := c.TopLabel.Bins(), c.Outcomes.EqualMassBins(bins)
	add("accuracy", "top_label", c.Accuracy(), none)
	add("mean_confidence", "top_label", c.MeanConfidence(), none)
	add("nll", "all", c.NLL(), none)
	add("brier", "all", c.Brier(), none)
	add("ece", "top_label", table.ECE(), width("l1"))
	add("mce", "top_label", table.MCE(1), width("max"))
	add("rmsce", "top_label", table.RMSCE(), width("l2"))
	add("debiased_l2", "top_label", table.DebiasedL2(), width("l2"))
	add("debiased_l2_squared", "top_label", table.DebiasedL2Squared(), width("l2"))
	add("ace_mean_bins", "top_label", table.MeanOfBins(), width("mean"))
	add("ece_equal_mass", "top_label", mass.ECE(), binning{"equal_mass", "right", "l1", len(mass)})
	add("classwise_ece", "classwise", c.Classwise.ECE(), width("l1"))
	add("aurc", "top_label", c.Outcomes.AURC(), none)
	add("eaurc", "top_label", c.Outcomes.EAURC(), none)
	add("augrc", "top_label", c.Outcomes.AUGRC(), none)
	t.addBins(dataset, mapping, "equal_width", table)
	t.addBins(dataset, mapping, "equal_mass", mass)
}

func (t *calibrationTables) addBins(dataset, mapping, scheme string, bins score.Bins) {
	for i, b := range bins {
		t.bins = append(t.bins, outputs.CalibrationBin{Dataset: dataset, Map: mapping, Scheme: scheme, Bin: int32(i), Lo: b.Lo, Hi: b.Hi, Count: b.Count,
			MeanConf: outputs.Defined(b.MeanConf), Accuracy: outputs.Defined(b.Accuracy), Gap: outputs.Defined(b.Gap), CILow: outputs.Defined(b.CILow), CIHigh: outputs.Defined(b.CIHigh)})
	}
}

func (t *calibrationTables) addClasses(dataset string, names []string, c *score.Calibration, energy []score.Sum) {
	for k, r := range c.PerClass() {
		row := outputs.PerClass{Dataset: dataset, Class: int32(k), ClassName: names[k], N: r.N, NPredicted: r.Predicted,
			Accuracy: outputs.Defined(r.Accuracy.Value), Precision: outputs.Defined(r.Precision.Value), MeanConf: outputs.Defined(r.MeanConf.Value), ClasswiseECE: outputs.Defined(r.ECE.Value)}
		if r.N > 0 && energy != nil {
			row.MeanEnergy = outputs.Defined(energy[k].Mean(r.N))
		}
		t.perClass = append(t.perClass, row)
	}
	for label, name := range names {
		for pred, predName := range names {
			t.confusion = append(t.confusion, outputs.Confusion{Dataset: dataset, Label: int32(label), LabelName: name, Pred: int32(pred), PredName: predName,
				Count: c.Confusion.Count(label, pred)})
		}
	}
}

// riskPoints bounds the rows of a risk-coverage curve.
const riskPoints = 200

func (t *calibrationTables) addRisk(dataset string, c *score.Calibration) {
	for i, p := range c.Outcomes.RiskCoverage(riskPoints) {
		t.risk = append(t.risk, outputs.RiskCoverage{Dataset: dataset, RankedBy: "confidence", Point: int32(i), Threshold: outputs.Defined(p.Threshold),
			NAccepted: p.Accepted, Coverage: p.Coverage, Risk: outputs.Defined(p.Risk), N: c.N()})
	}
}

// dropReasons lists why rows were left out, such as "nan_logits: 2, no_label_or_logits: 3"; null where none was.
func dropReasons(c *score.Calibration, skipped int64) *string {
	var parts []string
	for _, d := range c.Dropped() {
		parts = append(parts, fmt.Sprintf("%s: %d", d.Reason, d.N))
	}
	if skipped > 0 {
		parts = append(parts, fmt.Sprintf("no_label_or_logits: %d", skipped))
	}
	return text(strings.Join(parts, ", "))
}
