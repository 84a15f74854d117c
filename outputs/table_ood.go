package outputs

// Metrics of table ood_metrics. The ranking metrics take OOD as the positive class and "flag when score >= threshold".
const (
	MetricAUROC            = "auroc"              // area under the ROC curve, [0,1]; 0.5 is chance
	MetricAveragePrecision = "average_precision"  // step-wise area under precision and recall, [0,1]
	MetricFPR95            = "fpr_at_95_tpr"      // false positive rate at the first threshold whose true positive rate reaches 0.95
	MetricDetectionError   = "detection_error"    // smallest mean of the two error rates over all thresholds, [0,0.5]
	MetricDetectionError95 = "detection_error_95" // mean of the two error rates where the true positive rate reaches 0.95
	MetricTPRAtThreshold   = "tpr_at_threshold"   // share of OOD rows flagged at the threshold of table thresholds
	MetricFPRAtThreshold   = "fpr_at_threshold"   // share of ID rows flagged at it
	PositiveOOD            = "ood"                // positive_class: out of distribution
	PositiveID             = "id"                 // positive_class: in distribution
)

// OODMetric is one number about one detector on one pair of data sets.
type OODMetric struct {
	IDDataset     string   `parquet:"id_dataset,dict" doc:"In-distribution data set."`
	OODDataset    string   `parquet:"ood_dataset,dict" doc:"Out-of-distribution data set."`
	Detector      string   `parquet:"detector,dict" doc:"Detector without the prefix ood_, such as energy."`
	Metric        string   `parquet:"metric,dict" doc:"auroc, average_precision, fpr_at_95_tpr, detection_error, detection_error_95, tpr_at_threshold or fpr_at_threshold."`
	PositiveClass *string  `parquet:"positive_class,optional,dict" doc:"ood or id: the class whose recall the metric speaks of. Null where the metric is the same for both."`
	Value         *float64 `parquet:"value,optional" doc:"The metric, [0,1]. Null where undefined; then reason says why."`
	CILow         *float64 `parquet:"ci_low,optional" doc:"Lower end of the 95 % confidence interval. Null where none was computed."`
	CIHigh        *float64 `parquet:"ci_high,optional" doc:"Upper end of the 95 % confidence interval. Null where none was computed."`
	CIMethod      *string  `parquet:"ci_method,optional,dict" doc:"How the interval was made, such as delong_logit or bootstrap. Null where there is none."`
	NID           int64    `parquet:"n_id" doc:"In-distribution rows used."`
	NOOD          int64    `parquet:"n_ood" doc:"Out-of-distribution rows used."`
	NDroppedID    int64    `parquet:"n_dropped_id" doc:"In-distribution rows left out because their score is null."`
	NDroppedOOD   int64    `parquet:"n_dropped_ood" doc:"Out-of-distribution rows left out because their score is null."`
	Threshold     *float64 `parquet:"threshold,optional" doc:"The score threshold the metric was read at, in the detector's unit. Null where the metric has none."`
	Reason        *string  `parquet:"reason,optional,dict" doc:"Why value is null, such as one_class, probabilities_only or no_gradient. Null where value is not."`
}

// ROC is one corner of the ROC curve of one detector.
type ROC struct {
	IDDataset  string   `parquet:"id_dataset,dict" doc:"In-distribution data set."`
	OODDataset string   `parquet:"ood_dataset,dict" doc:"Out-of-distribution data set; OOD is the positive class."`
	Detector   string   `parquet:"detector,dict" doc:"Detector without the prefix ood_."`
	Point      int32    `parquet:"point" doc:"Position on the curve, 0 at the origin, with falling threshold."`
	Threshold  *float64 `parquet:"threshold,optional" doc:"Rows with score >= threshold count as flagged. Null at the origin, where nothing is flagged."`
	TPR        float64  `parquet:"tpr" doc:"Share of OOD rows flagged, [0,1]."`
	FPR        float64  `parquet:"fpr" doc:"Share of ID rows flagged, [0,1]."`
}

// Threshold is the ready-made decision threshold of one detector.
type Threshold struct {
	Detector         string   `parquet:"detector,dict" doc:"Detector without the prefix ood_."`
	IDDataset        string   `parquet:"id_dataset,dict" doc:"In-distribution data set the threshold was chosen on."`
	AcceptanceTarget float64  `parquet:"acceptance_target" doc:"Share of ID rows that was to stay unflagged, such as 0.95."`
	Acceptance       *float64 `parquet:"acceptance,optional" doc:"Share of ID rows that stays unflagged at the threshold, >= acceptance_target. Null where threshold is."`
	Threshold        *float64 `parquet:"threshold,optional" doc:"A row is flagged when its score >= threshold. Null where undefined; then reason says why."`
	N                int64    `parquet:"n" doc:"ID rows with a score."`
	Reason           *string  `parquet:"reason,optional,dict" doc:"Why threshold is null. Null where threshold is not."`
}

// Histogram is one bin of one score's histogram. Bins of one detector have the same edges in every data set that is
// compared with id_dataset.
type Histogram struct {
	IDDataset string  `parquet:"id_dataset,dict" doc:"In-distribution data set that the histogram is compared with."`
	Dataset   string  `parquet:"dataset,dict" doc:"Data set that was counted; the in-distribution one is among them."`
	Role      string  `parquet:"role,dict" doc:"id or ood: what dataset is here."`
	Detector  string  `parquet:"detector,dict" doc:"Detector without the prefix ood_."`
	Bin       int32   `parquet:"bin" doc:"Bin number from 0."`
	Lo        float64 `parquet:"lo" doc:"Lower edge, in the bin."`
	Hi        float64 `parquet:"hi" doc:"Upper edge, in the next bin; in this bin for the last one."`
	Count     int64   `parquet:"count" doc:"Rows in the bin."`
}
