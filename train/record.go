package train

import "math"

// Record is what a step tells. Fields that a step does not have are NaN.
type Record struct {
	Step         int // counted from 1
	Attempt      int // rollbacks before this step; a step that was taken again has a record for each attempt
	Epoch        float64
	LearningRate float64
	Terms
	GradNorm        float64 // before clipping
	GapSign         float64 // mean sign of the gap over the last 100 steps: near 0 while chains follow the model
	DataMean        float64 // mean element of the real rows
	SampleMean      float64 // mean element of the chains after sampling
	DataAtBounds    float64 // share of the training rows' elements at the bounds of sampler.range or beyond
	SamplesAtBounds float64 // the same share of the chains after sampling
	Displacement    float64 // see langevin.Stats, as the next two
	EnergyDrop      float64
	Acceptance      float64
	Restarts        float64 // share of the chains that started anew
	ValidAccuracy   float64 // after this step, where it was evaluated
	ValidNLL        float64
	Event           string // what the guard found and did; mostly empty
}

// Gap is f(data) - f(samples): near 0 with changing sign while chains follow the model.
func (r Record) Gap() float64 { return r.FData - r.FSamples }

func (r *run) newRecord() Record {
	nan := math.NaN()
	step := r.state.Step
	return Record{Step: step + 1, Attempt: r.state.Attempt,
		Epoch:        float64(step+1) * float64(r.cfg.BatchSize*r.cfg.Accumulate) / float64(r.data.Rows()),
		LearningRate: r.cfg.Optimizer.LearningRate(step, r.total) * r.state.LRScale,
		Terms:        Terms{NonFinite: -1}, GapSign: nan, DataMean: nan, SampleMean: nan, DataAtBounds: nan, SamplesAtBounds: nan,
		Displacement: nan, EnergyDrop: nan, Acceptance: nan, Restarts: nan, ValidAccuracy: nan, ValidNLL: nan}
}

// health is what the chains of a batch tell.
type health struct {
	dataMean, sampleMean, atBounds, displacement, energyDrop, acceptance, restarts float64
}

// add adds the health of another batch of the same step, with the given share of the step.
func (h *health) add(o health, share float64) {
	for _, p := range [][2]*float64{{&h.dataMean, &o.dataMean}, {&h.sampleMean, &o.sampleMean}, {&h.atBounds, &o.atBounds},
		{&h.displacement, &o.displacement}, {&h.energyDrop, &o.energyDrop}, {&h.acceptance, &o.acceptance}, {&h.restarts, &o.restarts}} {
		*p[0] += share * *p[1]
	}
}

// mean is the mean element.
func mean(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v)
	}
	return sum / float64(len(x))
}
