// Package train fits a joint energy-based model (JEM; Grathwohl et al. 2019, "Your classifier is secretly an energy
// based model and you should treat it like one", arXiv 1912.03263): cross-entropy for p(y|x), and for p(x) the
// difference of the mean log-sum-exp of the logits between data and samples that SGLD draws from the model itself.
package train

import (
	"math"

	"github.com/jempipe/jempipe/internal/augment"
	"github.com/jempipe/jempipe/langevin"
)

// Config is everything that decides a training run besides network, data and seed. The defaults are for small grey
// pictures scaled to [-1,1]; the docs give the paper's values for CIFAR-10 beside them.
type Config struct {
	Engine       string         `yaml:"engine" enum:"gorgonia|onnxruntime" default:"gorgonia" doc:"Who computes the gradients of the parameters. gorgonia: its tape machine; onnxruntime: a gradient graph of the same network in ONNX Runtime, several times as fast for convolutions. They agree to float32 accuracy; the chains run in ONNX Runtime either way."`
	Objective    string         `yaml:"objective" enum:"jem|conditional|density|classifier" default:"jem" doc:"jem: p(x) and p(y|x), with the weights of loss; conditional: p(y) p(x|y), with classes of the labelled rows and their share as p(y); density: p(x) alone, no label is used; classifier: cross-entropy alone, as a baseline."`
	Steps        int            `yaml:"steps" min:"0" default:"0" doc:"Optimiser steps. 0: take epochs."`
	Epochs       float64        `yaml:"epochs" min:"0" default:"20" doc:"Passes over the training rows, where steps is 0. The paper: 150."`
	BatchSize    int            `yaml:"batch_size" min:"1" default:"64" doc:"Rows of each real batch and number of chains a step."`
	Accumulate   int            `yaml:"accumulate" min:"1" default:"1" doc:"Batches, each with chains of its own, whose mean gradient makes one step."`
	DataNoise    float64        `yaml:"data_noise" min:"0" default:"0.1" doc:"Standard deviation of the Gaussian noise added to training rows, in model space: it hides the grid that pixel values lie on. The paper: 0.03; its authors call 0.1 the more stable."`
	Augment      augment.Config `yaml:"augment" doc:"Random changes of training rows that are pictures."`
	OneBatch     bool           `yaml:"one_batch" default:"false" doc:"Use one real batch for p(x) and p(y|x) alike. The authors draw two; one saves a third of the gradient work."`
	PerClass     int            `yaml:"labels_per_class" min:"0" default:"0" doc:"Use only this many labels a class for p(y|x), the first ones in file order; p(x) sees all rows. 0: all labels."`
	EMA          float64        `yaml:"ema" min:"0" max:"0.99999" default:"0" doc:"Decay of an exponential moving average of the weights, which is then evaluated and exported in their place; the chains follow the weights themselves. 0: none."`
	SpectralNorm bool           `yaml:"spectral_norm" default:"false" doc:"Divide each weight matrix by its largest singular value, by one power iteration a step (Miyato et al. 2018). Exported weights are the divided ones."`
	Select       string         `yaml:"select" enum:"last|best_accuracy|best_nll" default:"last" doc:"Which weights are the result: the last ones, or those of the evaluation with the highest accuracy or lowest negative log-likelihood on the validation rows."`
	EvalEvery    int            `yaml:"eval_every" min:"1" default:"250" doc:"Steps between evaluations on the validation rows."`
	LogEvery     int            `yaml:"log_every" min:"0" default:"250" fingerprint:"-" doc:"Steps between log lines with the health figures; 0: none."`
	SamplesEvery int            `yaml:"samples_every" min:"0" default:"500" doc:"Steps between pictures of the newest chains, samples/step-N.png; 0: none."`
	Shards       int            `yaml:"shards" min:"1" max:"64" default:"2" doc:"Parts that each batch is cut into, worked on side by side. Fixed here and not by the machine, since it decides the last bits of the sums."`
	Loss         Loss           `yaml:"loss" doc:"Weights of the terms of the objective."`
	Optimizer    Optimizer      `yaml:"optimizer" doc:"Parameter updates."`
	Sampler      Sampler        `yaml:"sampler" doc:"SGLD and its replay buffer."`
	Guard        Guard          `yaml:"guard" doc:"What counts as diverged or collapsed, and what is done about it."`
	Checkpoint   Checkpoint     `yaml:"checkpoint" doc:"What a killed run continues from, and where the guard goes back to."`
}

// Loss holds the weights of the objective.
type Loss struct {
	PX        float64 `yaml:"p_x" min:"0" default:"1" doc:"Weight of -log p(x): mean log-sum-exp of samples less that of data."`
	PYgivenX  float64 `yaml:"p_y_given_x" min:"0" default:"1" doc:"Weight of the cross-entropy."`
	PXY       float64 `yaml:"p_x_y" min:"0" default:"0" doc:"Weight of -log p(x,y), which runs a second, class-conditional set of chains. The paper's ablation; 0 in its main runs."`
	PXgivenY  float64 `yaml:"p_x_given_y" min:"0" default:"1" doc:"Weight of -log p(x|y) of the conditional objective: mean logit y of samples drawn for class y less that of data of class y."`
	EnergyReg float64 `yaml:"energy_l2" min:"0" default:"0.1" doc:"Weight of mean f(data)^2 + mean f(samples)^2, which keeps energies near 0 (Du and Mordatch 2019, section 3.3). The paper: 0."`
	Smoothing float64 `yaml:"label_smoothing" min:"0" max:"0.9999" default:"0" doc:"Share of each label that the cross-entropy spreads evenly over all classes (Szegedy et al. 2016, section 7)."`
}

// Optimizer holds the numbers of the parameter updates.
type Optimizer struct {
	Name        string    `yaml:"name" enum:"adam|adamw|sgd" default:"adam" doc:"Solver."`
	LR          float64   `yaml:"lr" min:"1e-9" max:"10" default:"0.002" doc:"Learning rate. The paper: 1e-4."`
	Beta1       float64   `yaml:"beta1" min:"0" max:"0.9999" default:"0" doc:"Adam's decay of the first moment. The paper: 0.9; 0 lets the energy follow the chains."`
	Beta2       float64   `yaml:"beta2" min:"0" max:"0.99999" default:"0.999" doc:"Adam's decay of the second moment."`
	Epsilon     float64   `yaml:"epsilon" min:"1e-12" default:"1e-8" doc:"Adam's constant in the denominator."`
	Momentum    float64   `yaml:"momentum" min:"0" max:"0.9999" default:"0.9" doc:"Momentum of sgd."`
	Nesterov    bool      `yaml:"nesterov" default:"false" doc:"Nesterov's form of sgd's momentum."`
	WeightDecay float64   `yaml:"weight_decay" min:"0" default:"0" doc:"adam, sgd: L2 penalty on all parameters, added to their gradients; adamw: share of the parameters, times the learning rate, taken off in each step."`
	Warmup      int       `yaml:"warmup_steps" min:"0" default:"200" doc:"Steps over which the learning rate grows linearly from 0. The paper: 1000."`
	Schedule    string    `yaml:"schedule" enum:"step|cosine|exponential|constant" default:"step" doc:"step: times decay_rate after each share in decay_at; cosine: half a cosine down to decay_rate of the rate at the end (Loshchilov and Hutter 2017); exponential: by equal factors down to decay_rate at the end; constant."`
	DecayAt     []float64 `yaml:"decay_at" min:"0" max:"1" default:"[0.75]" doc:"Schedule step: shares of the run after which the learning rate is multiplied by decay_rate. The paper: [0.8, 0.9]."`
	DecayRate   float64   `yaml:"decay_rate" min:"0" max:"1" default:"0.3" doc:"Factor of each decay, or of the end of the run. The paper: 0.3."`
	ClipNorm    float64   `yaml:"clip_norm" min:"0" default:"1" doc:"Largest global norm of the parameter gradient; 0: no bound. The paper: 0."`
}

// Sampler holds the numbers of SGLD and of the replay buffer.
type Sampler struct {
	langevin.Rule
	Persistent  bool           `yaml:"persistent" json:"persistent" default:"true" doc:"Chains go on in the replay buffer from one training step to the next. false: short-run chains, all of which start anew in each step (Nijkamp et al. 2019); there is no buffer then."`
	BufferSize  int            `yaml:"buffer_size" json:"buffer_size" min:"1" default:"10000" doc:"Persistent chains in the replay buffer. The paper: 10000."`
	Restart     float64        `yaml:"restart" json:"restart" min:"0" max:"1" default:"0.05" doc:"Probability that a chain starts anew. The paper: 0.05."`
	Start       string         `yaml:"start" json:"start" enum:"uniform|class_gaussian" default:"uniform" doc:"Where new chains start. uniform: in noise over range; class_gaussian: in a normal distribution with mean and covariance of up to 512 training rows of the chain's class, or of a class drawn by its frequency, or, without labels, of all rows (JEM++, Yang and Ji 2021), cut to range."`
	Augment     augment.Config `yaml:"augment" json:"augment" doc:"Random changes of buffer entries that chains go on from (Du et al. 2021)."`
	Conditional bool           `yaml:"class_conditional" json:"class_conditional" default:"false" doc:"Draw the samples of p(x) class by class: a random class each, gradient of log p(x,y), a slice of the buffer a class."`
}

// Guard holds the limits that tell a diverged or collapsed run from a healthy one, and the answer.
type Guard struct {
	MaxLoss      float64 `yaml:"max_loss" min:"0" default:"1e5" doc:"Diverged: |loss| above this; 0: no limit. The authors: 1e8."`
	MaxEnergy    float64 `yaml:"max_energy" min:"0" default:"1000" doc:"Diverged: |energy| of a row above this; 0: no limit."`
	MaxGap       float64 `yaml:"max_gap" min:"0" default:"100" doc:"Diverged: |gap|, f(data) - f(samples), above this; 0: no limit."`
	GapAlarm     float64 `yaml:"gap_alarm" min:"0" default:"3" doc:"Alarm: mean gap of the last gap_steps steps above this. The chains have stopped to follow the model."`
	GapSteps     int     `yaml:"gap_steps" min:"1" default:"200" doc:"Steps of that mean."`
	GapHealthy   float64 `yaml:"gap_healthy" min:"0" default:"1" doc:"Largest such mean of a healthy run. The guard goes back to checkpoints that were healthy."`
	Misplaced    float64 `yaml:"misplaced" min:"0" max:"1" default:"0.2" doc:"Collapsed: under alarm, samples and data differ by more than this in their mean element, as a share of sampler.range, or in their share of elements at its bounds."`
	OnDivergence string  `yaml:"on_divergence" enum:"rollback|fail" default:"rollback" doc:"rollback: back to the last checkpoint from before the trouble, with other random streams and smaller steps; fail: stop the stage."`
	OnCollapse   string  `yaml:"on_collapse" enum:"rollback|warn|fail" default:"rollback" doc:"As on_divergence; warn: go on and say so."`
	MaxRollbacks int     `yaml:"max_rollbacks" min:"0" default:"3" doc:"Rollbacks before the stage fails."`
	LRFactor     float64 `yaml:"lr_factor" min:"0.001" max:"1" default:"0.5" doc:"Factor of the learning rate at each rollback."`
	StepFactor   float64 `yaml:"step_factor" min:"0.001" max:"1" default:"1" doc:"Factor of the sampler's step_size at each rollback from a divergence. A collapse leaves it: its chains move too little."`
}

// Checkpoint says when the state of a run is written to disk.
type Checkpoint struct {
	Every   int     `yaml:"every" min:"1" default:"500" doc:"Steps between checkpoints. The guard goes back to one of these."`
	Minutes float64 `yaml:"minutes" min:"0" default:"5" fingerprint:"-" doc:"Minutes after which one more is written, for a killed run to continue from; 0: none."`
	Keep    int     `yaml:"keep" min:"2" default:"3" doc:"How many of these are kept; the last two healthy ones are kept in any case."`
}

// Default is the configuration of a run where nothing is said.
func Default() Config {
	return Config{
		Engine: "gorgonia", Objective: "jem", Epochs: 20, BatchSize: 64, Accumulate: 1, DataNoise: 0.1, Augment: augment.Config{Pad: augment.Edge}, Select: "last",
		EvalEvery: 250, LogEvery: 250, SamplesEvery: 500, Shards: 2,
		Loss: Loss{PX: 1, PYgivenX: 1, PXgivenY: 1, EnergyReg: 0.1},
		Optimizer: Optimizer{Name: "adam", LR: 2e-3, Beta2: 0.999, Epsilon: 1e-8, Momentum: 0.9, Warmup: 200,
			Schedule: "step", DecayAt: []float64{0.75}, DecayRate: 0.3, ClipNorm: 1},
		Sampler: Sampler{Rule: langevin.Default(), Persistent: true, BufferSize: 10000, Restart: 0.05, Start: langevin.StartUniform,
			Augment: augment.Config{Pad: augment.Edge}},
		Guard: Guard{MaxLoss: 1e5, MaxEnergy: 1e3, MaxGap: 100, GapAlarm: 3, GapSteps: 200, GapHealthy: 1, Misplaced: 0.2,
			OnDivergence: "rollback", OnCollapse: "rollback", MaxRollbacks: 3, LRFactor: 0.5, StepFactor: 1},
		Checkpoint: Checkpoint{Every: 500, Minutes: 5, Keep: 3},
	}
}

// Problem is a value that does not go together with the rest of a configuration.
type Problem struct{ Key, Message string }

// Lint finds what the range of a single key cannot show.
func (c Config) Lint(classes int) []Problem {
	var ps []Problem
	add := func(key, message string) { ps = append(ps, Problem{key, message}) }
	if c.Steps == 0 && c.Epochs == 0 {
		add("steps", "steps and epochs are both 0: nothing would be trained")
	}
	for _, p := range c.Sampler.Lint() {
		add("sampler."+p.Key, p.Message)
	}
	if !c.Generative() && !c.Supervised() {
		add("loss", "the weights of all terms of objective "+c.Objective+" are 0: nothing would be trained")
	}
	if c.PerClass > 0 && c.OneBatch && c.weights().PX > 0 && c.Supervised() {
		add("labels_per_class", "needs one_batch: false, since p(x) sees all rows and p(y|x) only those with a label")
	}
	if c.Conditional() && c.Sampler.Persistent && classes > 0 && c.Sampler.BufferSize%classes != 0 {
		add("sampler.buffer_size", "class-conditional chains need a multiple of the number of classes")
	}
	if c.Optimizer.Nesterov && (c.Optimizer.Name != "sgd" || c.Optimizer.Momentum == 0) {
		add("optimizer.nesterov", "belongs to sgd with momentum")
	}
	return ps
}

// weights are the weights of the terms that the objective has.
func (c Config) weights() Loss {
	w := c.Loss
	switch c.Objective {
	case "conditional":
		w.PX, w.PYgivenX, w.PXY = 0, 0, w.PXgivenY // the joint term: see Terms.PXY
	case "density":
		w.PYgivenX, w.PXY = 0, 0
	case "classifier":
		w.PX, w.PXY, w.EnergyReg = 0, 0, 0
	}
	return w
}

// Generative says whether chains are run.
func (c Config) Generative() bool { w := c.weights(); return w.PX > 0 || w.PXY > 0 }

// Supervised says whether labels are used: a run without any is then an error.
func (c Config) Supervised() bool { w := c.weights(); return w.PYgivenX > 0 || w.PXY > 0 }

// Conditional says whether chains of a given class are run.
func (c Config) Conditional() bool {
	w := c.weights()
	return w.PXY > 0 || w.PX > 0 && c.Sampler.Conditional
}

// TotalSteps is the number of optimiser steps over n training rows.
func (c Config) TotalSteps(n int) int {
	if c.Steps > 0 {
		return c.Steps
	}
	return int(math.Ceil(c.Epochs * float64(n) / float64(c.BatchSize*c.Accumulate)))
}

// LearningRate is the rate of a step, counted from 0, of total.
func (o Optimizer) LearningRate(step, total int) float64 {
	lr := o.LR
	done := float64(step) / float64(max(total, 1))
	switch o.Schedule {
	case "cosine":
		lr *= o.DecayRate + (1-o.DecayRate)*(1+math.Cos(math.Pi*done))/2
	case "exponential":
		lr *= math.Pow(o.DecayRate, done)
	case "step":
		for _, share := range o.DecayAt {
			if float64(step) >= share*float64(total) {
				lr *= o.DecayRate
			}
		}
	}
	if step+1 < o.Warmup {
		lr *= float64(step+1) / float64(o.Warmup)
	}
	return lr
}

// Solver is the rule of the updates without learning rate.
func (o Optimizer) Solver() Solver {
	return Solver{Name: o.Name, Beta1: o.Beta1, Beta2: o.Beta2, Epsilon: o.Epsilon, Momentum: o.Momentum, Nesterov: o.Nesterov, WeightDecay: o.WeightDecay}
}
