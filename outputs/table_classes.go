package outputs

// Confusion is one cell of a confusion matrix. Cells that count nothing are in the table too.
type Confusion struct {
	Dataset   string `parquet:"dataset,dict" doc:"Labelled data set that was evaluated."`
	Label     int32  `parquet:"label" doc:"True class."`
	LabelName string `parquet:"label_name,dict" doc:"Name of the true class; its number where the classes have no names."`
	Pred      int32  `parquet:"pred" doc:"Predicted class."`
	PredName  string `parquet:"pred_name,dict" doc:"Name of the predicted class; its number where the classes have no names."`
	Count     int64  `parquet:"count" doc:"Rows."`
}

// PerClass is what is known about one true class of one data set.
type PerClass struct {
	Dataset      string   `parquet:"dataset,dict" doc:"Labelled data set that was evaluated."`
	Class        int32    `parquet:"class" doc:"Class index, every class of the label space, also those that do not occur."`
	ClassName    string   `parquet:"class_name,dict" doc:"Name of the class; its number where the classes have no names."`
	N            int64    `parquet:"n" doc:"Rows whose label is this class."`
	NPredicted   int64    `parquet:"n_predicted" doc:"Rows predicted to be this class."`
	Accuracy     *float64 `parquet:"accuracy,optional" doc:"Share of the n rows that are predicted right (recall), [0,1]. Null where n is 0."`
	Precision    *float64 `parquet:"precision,optional" doc:"Share of the n_predicted rows that have this label, [0,1]. Null where n_predicted is 0."`
	MeanConf     *float64 `parquet:"mean_conf,optional" doc:"Mean confidence of the n rows, [0,1]. Null where n is 0."`
	MeanEnergy   *float64 `parquet:"mean_energy,optional" doc:"Mean energy of the n rows in nats. Null where n is 0 or the model gives no energy, see energy_reason in the predictions."`
	ClasswiseECE *float64 `parquet:"classwise_ece,optional" doc:"Calibration error of this class's probability over all rows, equal-width bins, L1, [0,1]. Null where the data set is empty."`
	SetCoverage  *float64 `parquet:"set_coverage,optional" doc:"Share of the n rows whose conformal set holds the label, [0,1]. Null where n is 0 or no sets were made."`
}
