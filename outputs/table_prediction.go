package outputs

// Prediction is one input row: what the model said about it. ID is the type of sample_id in the data set.
type Prediction[ID int64 | string] struct {
	SampleID  ID      `parquet:"sample_id" doc:"Id of the row in its source, or its row number counted from 0 where the source has no id. The key to join on, together with dataset."`
	Dataset   string  `parquet:"dataset,dict" doc:"Name of the data set in pipeline.yaml."`
	Role      string  `parquet:"role,dict" doc:"id: in distribution; ood: out of distribution. The truth about the data set, not a decision about the row."`
	Label     *int32  `parquet:"label,optional" doc:"True class, an index into class_names. Null where the row has no label; always null for role ood."`
	LabelName *string `parquet:"label_name,optional,dict" doc:"Name of the true class. Null where label is null or the classes have no names."`
	Pred      *int32  `parquet:"pred,optional" doc:"Predicted class: index of the largest logit, the lowest index among equals. Null where status is not ok."`
	PredName  *string `parquet:"pred_name,optional,dict" doc:"Name of the predicted class. Null where pred is null or the classes have no names."`
	Correct   *bool   `parquet:"correct,optional" doc:"pred = label. Null where either is null."`

	Confidence *float64 `parquet:"confidence,optional" doc:"Largest softmax probability, (0,1]. Null where status is not ok."`
	Margin     *float64 `parquet:"margin,optional" doc:"Largest minus second largest softmax probability, [0,1]. Null where status is not ok or there is one class."`
	Entropy    *float64 `parquet:"entropy,optional" doc:"Entropy of the softmax in nats, [0, ln K]. Null where status is not ok."`

	Logits []float32 `parquet:"logits,optional,list" doc:"The K logits f(x) in class order. Null where status is not ok or logits are not kept."`
	Probs  []float32 `parquet:"probs,optional,list" doc:"Softmax of the logits, K values in [0,1]; rounded to float32, so recompute from logits where small probabilities matter. Null where logits are."`

	Energy    *float64 `parquet:"energy,optional" doc:"E(x) = -logsumexp f(x) in nats: low = likely, high = unlikely under the model. The log density up to an unknown constant is -energy. Null where status is not ok or energy_reason says why."`
	ScoreNorm *float64 `parquet:"score_norm,optional" doc:"L2 norm, >= 0, of the gradient of logsumexp f(x) with respect to x in model space. Null where the gradient was not computed."`

	OODMSP             *float64 `parquet:"ood_msp,optional" doc:"Detector score, larger = more OOD: minus the largest softmax probability, [-1,0). Null where status is not ok."`
	OODMaxLogit        *float64 `parquet:"ood_max_logit,optional" doc:"Detector score, larger = more OOD: minus the largest logit. Null where status is not ok."`
	OODEnergy          *float64 `parquet:"ood_energy,optional" doc:"Detector score, larger = more OOD: the energy, -logsumexp f(x). Null where energy is."`
	OODEntropy         *float64 `parquet:"ood_entropy,optional" doc:"Detector score, larger = more OOD: entropy of the softmax in nats. Null where status is not ok."`
	OODMargin          *float64 `parquet:"ood_margin,optional" doc:"Detector score, larger = more OOD: minus the margin, [-1,0]. Null where status is not ok."`
	OODApproximateMass *float64 `parquet:"ood_approximate_mass,optional" doc:"Detector score, larger = more OOD: score_norm, the approximate mass of Grathwohl et al. 2020. Null where the gradient was not computed."`

	FlagMSP             *bool `parquet:"flag_msp,optional" doc:"ood_msp >= its threshold in table thresholds. Null where either is null or no threshold was set."`
	FlagMaxLogit        *bool `parquet:"flag_max_logit,optional" doc:"ood_max_logit >= its threshold; null rule as flag_msp."`
	FlagEnergy          *bool `parquet:"flag_energy,optional" doc:"ood_energy >= its threshold; null rule as flag_msp."`
	FlagEntropy         *bool `parquet:"flag_entropy,optional" doc:"ood_entropy >= its threshold; null rule as flag_msp."`
	FlagMargin          *bool `parquet:"flag_margin,optional" doc:"ood_margin >= its threshold; null rule as flag_msp."`
	FlagApproximateMass *bool `parquet:"flag_approximate_mass,optional" doc:"ood_approximate_mass >= its threshold; null rule as flag_msp."`

	ConfCalibrated *float64 `parquet:"conf_calibrated,optional" doc:"Largest softmax probability after recalibration, (0,1]. Null where no calibration was fitted or status is not ok."`
	SetSize        *int32   `parquet:"set_size,optional" doc:"Number of classes in the conformal prediction set, 0..K. Null where no conformal threshold was fitted or status is not ok."`

	Status       string  `parquet:"status,dict" doc:"ok, or why the row could not be decoded or scored: nan, infinite, wrong_length, null_x, null_value, label_out_of_range, duplicate_id (from the data), nan_logits, inf_logits, all_neg_inf_logits (from the model). Such rows stay in the table with null results."`
	StatusReason *string `parquet:"status_reason,optional,dict" doc:"What was found and wanted, for a person. Null where status is ok."`
	Tie          *bool   `parquet:"tie,optional" doc:"More than one class has the largest logit. Null where status is not ok."`
	EnergyReason *string `parquet:"energy_reason,optional,dict" doc:"Why energy and ood_energy are null though status is ok: probabilities_only, the model gives probabilities, whose logarithms are the logits here and hold no density. Null where energy is not."`
}
