package outputs

// Maps of the calibration tables: what was done to the logits before the softmax.
const (
	MapUncalibrated = "uncalibrated"
	MapTemperature  = "temperature"
)

// CalibrationMetric is one number about how far confidence can be trusted on one data set.
type CalibrationMetric struct {
	Dataset     string   `parquet:"dataset,dict" doc:"Data set that was evaluated."`
	Map         string   `parquet:"map,dict" doc:"uncalibrated: the model as it is; temperature: logits divided by the fitted temperature."`
	Metric      string   `parquet:"metric,dict" doc:"Name of the metric: accuracy, mean_confidence, nll, brier, ece, mce, rmsce, ace_mean_bins, aurc, eaurc, augrc and the like."`
	Scheme      *string  `parquet:"scheme,optional,dict" doc:"Bins: equal_width or equal_mass. Null for a metric without bins."`
	NBins       *int32   `parquet:"n_bins,optional" doc:"Number of bins; with equal_mass ties may leave fewer than asked for. Null for a metric without bins."`
	Closed      *string  `parquet:"closed,optional,dict" doc:"Which end belongs to a bin: right means (lo, hi]. Null for a metric without bins."`
	Norm        *string  `parquet:"norm,optional,dict" doc:"How gaps are put together: l1 (weighted by rows), l2, max or mean (of the bins). Null for a metric without bins."`
	Scope       string   `parquet:"scope,dict" doc:"top_label: the predicted class; classwise: every class, averaged; all: the whole distribution."`
	Value       *float64 `parquet:"value,optional" doc:"The metric. nll in nats, brier in [0,2], the others in [0,1]. Null where undefined; then reason says why."`
	CILow       *float64 `parquet:"ci_low,optional" doc:"Lower end of the 95 % confidence interval. Null where none was computed."`
	CIHigh      *float64 `parquet:"ci_high,optional" doc:"Upper end of the 95 % confidence interval. Null where none was computed."`
	CIMethod    *string  `parquet:"ci_method,optional,dict" doc:"How the interval was made: wilson or normal_of_mean. Null where there is none."`
	N           int64    `parquet:"n" doc:"Rows used."`
	NDropped    int64    `parquet:"n_dropped" doc:"Rows left out: no label, or status not ok."`
	DropReasons *string  `parquet:"drop_reasons,optional,dict" doc:"Why rows were left out, with their numbers, such as no_label_or_logits: 4. Null where n_dropped is 0."`
	Reason      *string  `parquet:"reason,optional,dict" doc:"Why value is null, such as no_labels. Null where value is not."`
}

// CalibrationBin is one bin of a reliability diagram.
type CalibrationBin struct {
	Dataset  string   `parquet:"dataset,dict" doc:"Data set that was evaluated."`
	Map      string   `parquet:"map,dict" doc:"uncalibrated or temperature."`
	Scheme   string   `parquet:"scheme,dict" doc:"equal_width or equal_mass."`
	Bin      int32    `parquet:"bin" doc:"Bin number from 0."`
	Lo       float64  `parquet:"lo" doc:"Lower edge of confidence, outside the bin; inside for the first bin."`
	Hi       float64  `parquet:"hi" doc:"Upper edge of confidence, inside the bin."`
	Count    int64    `parquet:"count" doc:"Rows in the bin; 0 for an empty bin, which stays in the table."`
	MeanConf *float64 `parquet:"mean_conf,optional" doc:"Mean confidence of the rows, [0,1]. Null where count is 0."`
	Accuracy *float64 `parquet:"accuracy,optional" doc:"Share of correct rows, [0,1]. Null where count is 0."`
	Gap      *float64 `parquet:"gap,optional" doc:"mean_conf - accuracy, [-1,1]: positive = over-confident. Null where count is 0."`
	CILow    *float64 `parquet:"ci_low,optional" doc:"Lower end of the 95 % interval of accuracy. Null where count is 0."`
	CIHigh   *float64 `parquet:"ci_high,optional" doc:"Upper end of the 95 % interval of accuracy. Null where count is 0."`
}

// Recalibration is one parameter of a fitted calibration map.
type Recalibration struct {
	Map        string   `parquet:"map,dict" doc:"Name of the map, such as temperature or conformal."`
	Parameter  string   `parquet:"parameter,dict" doc:"Name of the parameter, such as temperature or threshold."`
	Value      *float64 `parquet:"value,optional" doc:"The fitted value. Null where it could not be fitted; then reason says why."`
	HitBound   bool     `parquet:"hit_bound" doc:"The search ended at a bound: the value is not an optimum."`
	FitDataset string   `parquet:"fit_dataset,dict" doc:"Data set the map was fitted on. Evaluate on another one."`
	N          int64    `parquet:"n" doc:"Labelled rows used."`
	NLLBefore  *float64 `parquet:"nll_before,optional" doc:"Mean negative log likelihood in nats on fit_dataset without the map. Null where undefined."`
	NLLAfter   *float64 `parquet:"nll_after,optional" doc:"The same with the map. Null where undefined."`
	Reason     *string  `parquet:"reason,optional,dict" doc:"Why value is null. Null where value is not."`
}

// RiskCoverage is one point of a risk-coverage curve: rows are accepted from the most to the least confident one, equal
// confidences together.
type RiskCoverage struct {
	Dataset   string   `parquet:"dataset,dict" doc:"Data set that was evaluated."`
	RankedBy  string   `parquet:"ranked_by,dict" doc:"What orders the rows: confidence, or a detector without the prefix ood_ (smallest score first)."`
	Point     int32    `parquet:"point" doc:"Position on the curve, from 0, with rising coverage."`
	Threshold *float64 `parquet:"threshold,optional" doc:"Value of the last accepted row: rows at least this good are accepted. Null where nothing is accepted."`
	NAccepted int64    `parquet:"n_accepted" doc:"Rows accepted."`
	Coverage  float64  `parquet:"coverage" doc:"n_accepted / n, [0,1]."`
	Risk      *float64 `parquet:"risk,optional" doc:"Selective risk: errors among the accepted / n_accepted, [0,1]. Null where nothing is accepted."`
	N         int64    `parquet:"n" doc:"Labelled rows in the data set."`
}
