package stages

import (
	"context"
	"math"
	"path/filepath"
	"slices"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/score"
)

// OODKind measures how well detectors tell data sets apart and decides about each row.
func OODKind() pipeline.Kind {
	return pipeline.Kind{
		Name: "ood", Version: 2,
		Summary: "Compares detector scores of in-distribution and out-of-distribution data sets (tables ood_metrics, roc, histograms, thresholds) and writes the predictions once more with the decisions: flag_* and conf_calibrated.",
		New: func() pipeline.Stage {
			return &OOD{Detectors: outputs.Detectors(), Acceptance: 0.95, HistogramBins: 60, ROCPoints: 200}
		},
	}
}

// OOD is the configuration of an ood stage.
type OOD struct {
	Predictions   pipeline.StageRef  `yaml:"predictions" required:"true" default:"infer" kinds:"infer" doc:"Stage whose predictions are read."`
	Calibration   pipeline.StageRef  `yaml:"calibration" default:"calibrate" kinds:"calibrate" doc:"Stage whose temperature gives conf_calibrated. Absent: that column is null."`
	ID            pipeline.DataRef   `yaml:"id" required:"true" default:"test" doc:"In-distribution data set that the others are compared with."`
	OOD           []pipeline.DataRef `yaml:"ood" required:"true" doc:"Out-of-distribution data sets. Each is compared with id; OOD is the positive class."`
	ThresholdsOn  pipeline.DataRef   `yaml:"thresholds_on" default:"valid" doc:"In-distribution data set that thresholds are chosen on; another one than id, or the rates on id are too good. Absent: id itself."`
	Acceptance    float64            `yaml:"acceptance" min:"0.000001" max:"1" default:"0.95" doc:"Share of in-distribution rows that is to stay unflagged: decides each detector's threshold."`
	Detectors     []string           `yaml:"detectors" enum:"msp|max_logit|energy|entropy|margin|approximate_mass" doc:"Detectors to compare. Default: all."`
	HistogramBins int                `yaml:"histogram_bins" min:"1" max:"10000" default:"60" doc:"Bins of the histograms, on edges that all data sets of a detector share."`
	ROCPoints     int                `yaml:"roc_points" min:"16" max:"100000" default:"200" doc:"Largest number of points of a ROC curve; corners are kept."`
}

// Lint implements pipeline.Stage.
func (o *OOD) Lint(lc *pipeline.LintContext) {
	checkScored(lc, "id", o.Predictions, o.ID)
	checkScored(lc, "ood", o.Predictions, o.OOD...)
	checkScored(lc, "thresholds_on", o.Predictions, o.ThresholdsOn)
	checkSameModel(lc, o.Predictions, "calibration", o.Calibration)
	if infer, ok := linted(lc)(o.Predictions).(*Infer); ok && slices.Contains(infer.OOD, o.ID) {
		lc.Problem("id", "stage %s scores %s as out of distribution", o.Predictions, o.ID)
	}
	checkDistinct(lc, "ood", o.OOD)
	checkDistinct(lc, "detectors", o.Detectors)
	if slices.Contains(o.OOD, o.ID) || slices.Contains(o.OOD, o.ThresholdsOn) {
		lc.Problem("ood", "names the data set of id or of thresholds_on, which are in distribution")
	}
	if len(o.Detectors) == 0 {
		lc.Problem("detectors", "the list is empty: name at least one, or leave the key out for all")
	}
}

// Run implements pipeline.Stage.
func (o *OOD) Run(ctx context.Context, rc *pipeline.RunContext) error {
	dir := rc.StageDir(o.Predictions)
	on := o.ThresholdsOn
	if on == "" {
		on = o.ID
	}
	meta, err := o.thresholdsAndMetrics(ctx, rc, dir, string(on))
	if err != nil {
		return err
	}
	return o.decide(ctx, rc, dir, meta)
}

// oodTables are the tables under construction.
type oodTables struct {
	metrics    []outputs.OODMetric
	roc        []outputs.ROC
	histograms []outputs.Histogram
	thresholds []outputs.Threshold
	noEnergy   string // why no row has an energy; "" where rows have one
	noScore    string // why no row has a score norm, likewise
}

// why is the reason for an undefined figure of a detector: that its scores do not exist, where they do not.
func (t *oodTables) why(detector, found string) string {
	d, _ := score.FindDetector(detector)
	switch {
	case found != "" && d.Name == "energy" && t.noEnergy != "":
		return t.noEnergy
	case found != "" && d.Needs == score.NeedsScoreNorm && t.noScore != "":
		return t.noScore
	}
	return found
}

func (o *OOD) thresholdsAndMetrics(ctx context.Context, rc *pipeline.RunContext, dir, on string) (decisions, error) {
	var t oodTables
	d := decisions{thresholds: map[string]float64{}}
	fitted, _, err := readScores(ctx, dir, on, o.Detectors)
	if err != nil {
		return d, err
	}
	id, meta, err := readScores(ctx, dir, string(o.ID), o.Detectors)
	if err != nil {
		return d, err
	}
	d.meta = tableMeta(rc, meta.ModelHash, meta.ClassNames)
	t.noEnergy, t.noScore = meta.Extra[noEnergyKey], meta.Extra[noScoreKey]
	for i, name := range o.Detectors {
		row := outputs.Threshold{Detector: name, IDDataset: on, AcceptanceTarget: o.Acceptance, N: fitted[i].Len()}
		th, err := fitted[i].Threshold(o.Acceptance)
		if err != nil {
			return d, err
		}
		if th.Reason == "" {
			row.Threshold, row.Acceptance = outputs.Defined(th.Value), outputs.Defined(th.Reached)
			d.thresholds[name] = th.Value
		} else {
			row.Reason = text(t.why(name, th.Reason))
		}
		t.thresholds = append(t.thresholds, row)
	}
	others := make([][]*score.Scores, len(o.OOD))
	for i, ref := range o.OOD {
		if others[i], _, err = readScores(ctx, dir, string(ref), o.Detectors); err != nil {
			return d, err
		}
		for j, name := range o.Detectors {
			t.compare(o, name, string(ref), id[j], others[i][j], d.thresholds)
		}
	}
	for j, name := range o.Detectors {
		if err := t.addHistograms(o, name, j, id, others); err != nil {
			return d, err
		}
	}
	return d, t.write(rc, d.meta)
}

func (t *oodTables) write(rc *pipeline.RunContext, meta outputs.Meta) error {
	for _, write := range []func() error{
		func() error { return writeTable(rc, "ood_metrics", meta, t.metrics) },
		func() error { return writeTable(rc, "roc", meta, t.roc) },
		func() error { return writeTable(rc, "histograms", meta, t.histograms) },
		func() error { return writeTable(rc, "thresholds", meta, t.thresholds) },
	} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// scoreRow is what rankings read of a prediction.
type scoreRow struct {
	MSP             *float64 `parquet:"ood_msp,optional"`
	MaxLogit        *float64 `parquet:"ood_max_logit,optional"`
	Energy          *float64 `parquet:"ood_energy,optional"`
	Entropy         *float64 `parquet:"ood_entropy,optional"`
	Margin          *float64 `parquet:"ood_margin,optional"`
	ApproximateMass *float64 `parquet:"ood_approximate_mass,optional"`
}

func (r *scoreRow) get(detector string) *float64 {
	p := outputs.Prediction[int64]{OODMSP: r.MSP, OODMaxLogit: r.MaxLogit, OODEnergy: r.Energy, OODEntropy: r.Entropy, OODMargin: r.Margin, OODApproximateMass: r.ApproximateMass}
	return *p.OOD(detector)
}

// readScores gives the scores of each detector; a null score counts as dropped.
func readScores(ctx context.Context, dir, dataset string, detectors []string) ([]*score.Scores, outputs.Meta, error) {
	set, err := openPredictions(dir, dataset)
	if err != nil {
		return nil, set.Meta, err
	}
	out := make([]*score.Scores, len(detectors))
	for i := range out {
		out[i] = &score.Scores{}
	}
	err = eachRow(ctx, set, func(_ int64, r *scoreRow) error {
		for i, name := range detectors {
			if v := r.get(name); v != nil {
				out[i].Add(*v)
			} else {
				out[i].Add(math.NaN())
			}
		}
		return nil
	})
	return out, set.Meta, err
}

// compare adds the metrics and the ROC curve of one detector on one pair of data sets.
func (t *oodTables) compare(o *OOD, detector, ood string, id, other *score.Scores, thresholds map[string]float64) {
	r := score.Rank(id, other)
	add := func(metric, positive string, m score.Metric) {
		t.metrics = append(t.metrics, outputs.OODMetric{IDDataset: string(o.ID), OODDataset: ood, Detector: detector, Metric: metric, PositiveClass: text(positive),
			Value: outputs.Defined(m.Value), CILow: outputs.Defined(m.CILow), CIHigh: outputs.Defined(m.CIHigh), CIMethod: text(m.CIMethod), NID: r.NID(), NOOD: r.NOOD(),
			NDroppedID: id.Dropped(), NDroppedOOD: other.Dropped(), Threshold: outputs.Defined(m.Threshold), Reason: text(t.why(detector, m.Reason))})
	}
	add(outputs.MetricAUROC, "", r.AUROC())
	add(outputs.MetricAveragePrecision, outputs.PositiveOOD, r.AveragePrecision(score.PositiveOOD))
	add(outputs.MetricAveragePrecision, outputs.PositiveID, r.AveragePrecision(score.PositiveID))
	add(outputs.MetricFPR95, outputs.PositiveOOD, r.FPRAtTPR(0.95, score.PositiveOOD))
	add(outputs.MetricFPR95, outputs.PositiveID, r.FPRAtTPR(0.95, score.PositiveID))
	add(outputs.MetricDetectionError, "", r.MinDetectionError())
	add(outputs.MetricDetectionError95, outputs.PositiveOOD, r.DetectionError(0.95))
	if th, ok := thresholds[detector]; ok {
		cut := r.At(th)
		add(outputs.MetricTPRAtThreshold, outputs.PositiveOOD, cut.TPR())
		add(outputs.MetricFPRAtThreshold, outputs.PositiveOOD, cut.FPR())
	}
	for i, p := range r.ROC(o.ROCPoints) {
		t.roc = append(t.roc, outputs.ROC{IDDataset: string(o.ID), OODDataset: ood, Detector: detector, Point: int32(i), Threshold: outputs.Defined(p.Threshold), TPR: p.TPR, FPR: p.FPR})
	}
}

// tail is the share of scores at each end that shared histogram edges leave out, so that one outlier does not squeeze
// all others into one bin; what lies outside is counted in the outermost bins.
const tail = 0.002

func (t *oodTables) addHistograms(o *OOD, detector string, j int, id []*score.Scores, others [][]*score.Scores) error {
	groups := []*score.Scores{id[j]}
	names, roles := []string{string(o.ID)}, []string{outputs.RoleID}
	for i, ref := range o.OOD {
		groups = append(groups, others[i][j])
		names, roles = append(names, string(ref)), append(roles, outputs.RoleOOD)
	}
	edges, err := score.SharedEdges(o.HistogramBins, tail, groups...)
	if err != nil {
		return err
	}
	for i, g := range groups {
		h := g.Histogram(edges)
		for b, n := range h.Counts {
			if b == 0 {
				n += h.Under
			}
			if b == len(h.Counts)-1 {
				n += h.Over
			}
			t.histograms = append(t.histograms, outputs.Histogram{IDDataset: string(o.ID), Dataset: names[i], Role: roles[i], Detector: detector,
				Bin: int32(b), Lo: h.Edges[b], Hi: h.Edges[b+1], Count: n})
		}
	}
	return nil
}

// decisions are what turns scores into flags.
type decisions struct {
	meta        outputs.Meta
	thresholds  map[string]float64
	temperature float64 // NaN: none
}

// temperature is what the calibration stage fitted to the logits of a model; NaN without such a stage.
func (o *OOD) temperature(rc *pipeline.RunContext, modelHash string) (float64, error) {
	if o.Calibration == "" {
		return math.NaN(), nil
	}
	path := filepath.Join(rc.StageDir(o.Calibration), "tables", "recalibration.parquet")
	meta, err := outputs.ReadMeta(path)
	if err != nil {
		return 0, err
	}
	if meta.ModelHash != modelHash {
		return 0, fault.New(fault.Config, "stages."+rc.Name+".calibration", "the temperature of stage %s was fitted to another model", o.Calibration).
			Do("name a calibrate stage that reads the same predictions, or leave calibration: empty")
	}
	rows, err := outputs.ReadAll[outputs.Recalibration](path)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(rows, func(r outputs.Recalibration) bool { return r.Map == outputs.MapTemperature && r.Value != nil })
	if i < 0 {
		return 0, fault.New(fault.Data, "stages."+string(o.Calibration), "no temperature was fitted")
	}
	return *rows[i].Value, nil
}

// decide writes all predictions once more with flags and calibrated confidences.
func (o *OOD) decide(ctx context.Context, rc *pipeline.RunContext, dir string, d decisions) error {
	var err error
	if d.temperature, err = o.temperature(rc, d.meta.ModelHash); err != nil {
		return err
	}
	names, err := predictedDatasets(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		set, err := openPredictions(dir, name)
		if err != nil {
			return err
		}
		meta := set.Meta
		meta.ConfigHash, meta.InputHashes = d.meta.ConfigHash, d.meta.InputHashes
		for _, part := range set.Parts {
			to := rc.Dir.Path("predictions", "dataset="+name, filepath.Base(part.Path))
			stringID, err := outputs.HasStringID(part.Path)
			if err != nil {
				return err
			}
			if stringID {
				err = decidePart[string](ctx, rc, part.Path, to, meta, d)
			} else {
				err = decidePart[int64](ctx, rc, part.Path, to, meta, d)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func decidePart[ID int64 | string](ctx context.Context, rc *pipeline.RunContext, from, to string, meta outputs.Meta, d decisions) error {
	w, err := outputs.Create[outputs.Prediction[ID]](to, meta.Map())
	if err != nil {
		return err
	}
	err = outputs.Read(from, func(rows []outputs.Prediction[ID]) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range rows {
			apply(d, &rows[i])
		}
		return w.Write(rows)
	})
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	rc.Rows(to, w.Rows())
	return err
}

func apply[ID int64 | string](d decisions, p *outputs.Prediction[ID]) {
	for name, threshold := range d.thresholds {
		if v := *p.OOD(name); v != nil {
			*p.Flag(name) = new(*v >= threshold)
		}
	}
	if p.Logits != nil && !math.IsNaN(d.temperature) {
		p.ConfCalibrated = outputs.Defined(score.DescribeAt(p.Logits, d.temperature, nil).Confidence)
	}
}
