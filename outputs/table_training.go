package outputs

// Training is one logged training step.
type Training struct {
	Step              int64    `parquet:"step" doc:"Training step, from 1: the state after the step."`
	Attempt           *int32   `parquet:"attempt,optional" doc:"Rollbacks before this row. A step that was taken again after a rollback has a row for each attempt; the highest attempt of a step is the one that counts. Null in files of before schema 1.1."`
	Event             *string  `parquet:"event,optional" doc:"What the guard found at the step and did about it. Null where nothing was found."`
	Epoch             float64  `parquet:"epoch" doc:"Passes over the training set so far, fractional."`
	LR                float64  `parquet:"lr" doc:"Learning rate of the step."`
	Loss              *float64 `parquet:"loss,optional" doc:"Total loss: the weighted sum of the parts below."`
	LossPX            *float64 `parquet:"loss_px,optional" doc:"Energy difference term for log p(x): mean logsumexp of samples minus that of data, unweighted. Null where the objective lacks it."`
	LossPYX           *float64 `parquet:"loss_pyx,optional" doc:"Cross-entropy of p(y|x) in nats, unweighted. Null where the objective lacks it."`
	LossPXY           *float64 `parquet:"loss_pxy,optional" doc:"Difference term for log p(x,y), unweighted. Null where the objective lacks it."`
	LossReg           *float64 `parquet:"loss_reg,optional" doc:"Energy regularisation, unweighted. Null where the objective lacks it."`
	FData             *float64 `parquet:"f_data,optional" doc:"Mean logsumexp f(x) over the data batch (minus the mean energy). Null where not computed."`
	FSamples          *float64 `parquet:"f_samples,optional" doc:"Mean logsumexp f(x) over the SGLD samples. Null where the step drew none."`
	Gap               *float64 `parquet:"gap,optional" doc:"f_data - f_samples: near 0 when samples look like data to the model; a runaway gap is divergence. Null where either is."`
	GapSign           *float64 `parquet:"gap_sign,optional" doc:"Mean sign of the gap over the last 100 steps, [-1,1]: near 0 while chains follow the model. Null where there is no gap."`
	GradNorm          *float64 `parquet:"grad_norm,optional" doc:"L2 norm of the parameter gradient before clipping. Null where not computed."`
	Accuracy          *float64 `parquet:"accuracy,optional" doc:"Share of the labelled batch predicted right, [0,1]. Null where the batch has no labels."`
	ValidAccuracy     *float64 `parquet:"valid_accuracy,optional" doc:"Share of the validation set predicted right, [0,1]. Null at steps without validation."`
	ValidNLL          *float64 `parquet:"valid_nll,optional" doc:"Mean negative log likelihood of the validation set in nats. Null at steps without validation."`
	SampleMean        *float64 `parquet:"sample_mean,optional" doc:"Mean value of the SGLD samples in model space. Null where the step drew none."`
	DataMean          *float64 `parquet:"data_mean,optional" doc:"Mean value of the data batch in model space. Null where not computed."`
	SamplesAtBounds   *float64 `parquet:"samples_at_bounds,optional" doc:"Share of the elements of the SGLD samples at a bound of sampler.range, [0,1]. Null where the step drew none."`
	DataAtBounds      *float64 `parquet:"data_at_bounds,optional" doc:"The same share of the training rows, without data noise; beyond a bound counts as at it. Null where not computed."`
	ChainDisplacement *float64 `parquet:"chain_displacement,optional" doc:"Root-mean-square change of an element of a chain over the step's SGLD updates, mean over chains, model space. Null where the step drew none."`
	EnergyDrop        *float64 `parquet:"energy_drop,optional" doc:"Mean over chains of the energy at the start of the step's SGLD updates less that of the last evaluated state, in nats. Null where the step drew none."`
	RestartShare      *float64 `parquet:"restart_share,optional" doc:"Share of the step's chains that started anew, [0,1]. Null where the step drew none."`
	Acceptance        *float64 `parquet:"acceptance,optional" doc:"Share of the proposals of corrected (MALA) updates that were accepted, [0,1]. Null without correction."`
	MaxAbsF           *float64 `parquet:"max_abs_f,optional" doc:"Largest |logsumexp f(x)| of all rows of the step. Null where not computed."`
}

// Sets of table energies.
const (
	EnergyTrain  = "train"  // rows of the training set, without data noise
	EnergyValid  = "valid"  // rows of the validation set
	EnergyChains = "chains" // states of the replay buffer
)

// Energy is what the trained model says of one row or one chain when training has ended.
type Energy struct {
	Set     string   `parquet:"set,dict" doc:"train, valid or chains: rows of the training set (without data noise), of the validation set, or chains of the replay buffer. At most 2,000 of each, evenly spaced."`
	Dataset *string  `parquet:"dataset,optional,dict" doc:"Data set of the row. Null for chains."`
	RowID   *string  `parquet:"row_id,optional" doc:"sample_id of the row, as text whatever its type in the data set. Null for chains."`
	Chain   *int64   `parquet:"chain,optional" doc:"Place of the chain in the replay buffer, from 0. Null for rows."`
	Label   *int32   `parquet:"label,optional" doc:"Label of the row. Null where it has none, and for chains."`
	Energy  *float64 `parquet:"energy,optional" doc:"Energy -logsumexp f(x) with the weights that training ended with, in nats; low = likely. Null where a logit is not finite."`
}

// Attempts is Attempt, 0 where it is null.
func (t Training) Attempts() int32 {
	if t.Attempt == nil {
		return 0
	}
	return *t.Attempt
}

// Sample is one kept state of one SGLD chain.
type Sample struct {
	Chain      int64     `parquet:"chain" doc:"Chain number, from 0."`
	Step       int32     `parquet:"step" doc:"SGLD steps made so far; 0 is the start of the chain."`
	Class      *int32    `parquet:"class,optional" doc:"Class the chain was conditioned on. Null for samples of p(x)."`
	ClassName  *string   `parquet:"class_name,optional,dict" doc:"Name of that class. Null where class is null or the classes have no names."`
	Pred       *int32    `parquet:"pred,optional" doc:"Class the model predicts for the state. Null where the state was not scored."`
	PredName   *string   `parquet:"pred_name,optional,dict" doc:"Name of the predicted class. Null where pred is null or the classes have no names."`
	Confidence *float64  `parquet:"confidence,optional" doc:"Largest softmax probability of the state, (0,1]. Null where the state was not scored."`
	Energy     *float64  `parquet:"energy,optional" doc:"Energy of the state in nats; low = likely. Null where the state was not scored."`
	X          []float32 `parquet:"x,optional,list" doc:"The state in raw data units, row-major; its shape stands in the file's metadata as sample_shape. Null where states are not kept."`
}
