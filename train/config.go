// Package train fits a joint energy-based model (JEM; Grathwohl et al. 2019, "Your classifier is secretly an energy
// based model and you should treat it like one", arXiv 1912.03263): cross-entropy for p(y|x), and for p(x) the
// difference of the mean log-sum-exp of the logits between data and samples that SGLD draws from the model itself.
package train

import "math"

// Config is everything that decides a training run besides network, data and seed. The defaults are for small grey
// pictures scaled to [-1,1]; the docs give the paper's values for CIFAR-10 beside them.
type Config struct {
	Objective string    `yaml:"objective" enum:"jem|classifier" default:"jem" doc:"jem: the joint model; classifier: the same network with cross-entropy alone, as a baseline."`
	Steps     int       `yaml:"steps" min:"0" default:"0" doc:"Optimiser steps. 0: take epochs."`
	Epochs    float64   `yaml:"epochs" min:"0" default:"20" doc:"Passes over the training rows, where steps is 0. The paper: 150."`
	BatchSize int       `yaml:"batch_size" min:"1" default:"64" doc:"Rows of each real batch and number of chains a step."`
	DataNoise float64   `yaml:"data_noise" min:"0" default:"0.1" doc:"Standard deviation of the Gaussian noise added to training rows, in model space: it hides the grid that pixel values lie on. The paper: 0.03; its authors call 0.1 the more stable."`
	OneBatch  bool      `yaml:"one_batch" default:"false" doc:"Use one real batch for p(x) and p(y|x) alike. The authors draw two; one saves a third of the gradient work."`
	PerClass  int       `yaml:"labels_per_class" min:"0" default:"0" doc:"Use only this many labels a class for p(y|x), the first ones in file order; p(x) sees all rows. 0: all labels."`
	EvalEvery int       `yaml:"eval_every" min:"1" default:"250" doc:"Steps between evaluations on the validation rows."`
	Shards    int       `yaml:"shards" min:"1" max:"64" default:"2" doc:"Parts that each batch is cut into, worked on side by side. Fixed here and not by the machine, since it decides the last bits of the sums."`
	Loss      Loss      `yaml:"loss" doc:"Weights of the terms of the objective."`
	Optimizer Optimizer `yaml:"optimizer" doc:"Parameter updates."`
	Sampler   Sampler   `yaml:"sampler" doc:"SGLD and its replay buffer."`
	Guard     Guard     `yaml:"guard" doc:"When to give up, and when to warn."`
}

// Loss holds the weights of the objective.
type Loss struct {
	PX        float64 `yaml:"p_x" min:"0" default:"1" doc:"Weight of -log p(x): mean log-sum-exp of samples less that of data."`
	PYgivenX  float64 `yaml:"p_y_given_x" min:"0" default:"1" doc:"Weight of the cross-entropy."`
	PXY       float64 `yaml:"p_x_y" min:"0" default:"0" doc:"Weight of -log p(x,y), which runs a second, class-conditional set of chains. The paper's ablation; 0 in its main runs."`
	EnergyReg float64 `yaml:"energy_l2" min:"0" default:"0.1" doc:"Weight of mean f(data)^2 + mean f(samples)^2, which keeps energies near 0 (Du and Mordatch 2019, section 3.3). The paper: 0."`
}

// Optimizer holds the numbers of the parameter updates.
type Optimizer struct {
	Name        string    `yaml:"name" enum:"adam|sgd" default:"adam" doc:"Solver; sgd is with momentum."`
	LR          float64   `yaml:"lr" min:"1e-9" max:"10" default:"0.002" doc:"Learning rate. The paper: 1e-4."`
	Beta1       float64   `yaml:"beta1" min:"0" max:"0.9999" default:"0" doc:"Adam's decay of the first moment. The paper: 0.9; 0 lets the energy follow the chains."`
	Beta2       float64   `yaml:"beta2" min:"0" max:"0.99999" default:"0.999" doc:"Adam's decay of the second moment."`
	Epsilon     float64   `yaml:"epsilon" min:"1e-12" default:"1e-8" doc:"Adam's constant in the denominator."`
	Momentum    float64   `yaml:"momentum" min:"0" max:"0.9999" default:"0.9" doc:"Momentum of sgd."`
	WeightDecay float64   `yaml:"weight_decay" min:"0" default:"0" doc:"L2 penalty on all parameters, added to their gradients."`
	Warmup      int       `yaml:"warmup_steps" min:"0" default:"200" doc:"Steps over which the learning rate grows linearly from 0. The paper: 1000."`
	DecayAt     []float64 `yaml:"decay_at" min:"0" max:"1" default:"[0.75]" doc:"Shares of the run after which the learning rate is multiplied by decay_rate. The paper: [0.8, 0.9]."`
	DecayRate   float64   `yaml:"decay_rate" min:"0" max:"1" default:"0.3" doc:"Factor of each decay. The paper: 0.3."`
	ClipNorm    float64   `yaml:"clip_norm" min:"0" default:"1" doc:"Largest global norm of the parameter gradient; 0: no bound. The paper: 0."`
}

// Sampler holds the numbers of SGLD and of the replay buffer.
type Sampler struct {
	Steps       int       `yaml:"steps" json:"steps" min:"1" default:"20" doc:"SGLD updates a training step. The paper: 20."`
	StepSize    float64   `yaml:"step_size" json:"step_size" min:"0" default:"1" doc:"Factor in front of the gradient (alpha/2). The paper: 1."`
	NoiseStd    float64   `yaml:"noise_std" json:"noise_std" min:"0" default:"0.01" doc:"Standard deviation of the noise of an update. The paper: 0.01."`
	GradClip    float64   `yaml:"grad_clip" json:"grad_clip" min:"0" default:"0.1" doc:"Bound on each element of the input gradient; 0: none. The paper: 0. Too large, chains jump over the model's modes; too small, they do not reach them."`
	Clamp       bool      `yaml:"clamp" json:"clamp" default:"true" doc:"Keep chains inside range. The paper: false."`
	Range       []float64 `yaml:"range" json:"range" default:"[-1, 1]" doc:"Range in model space, [low, high], of fresh chains and of clamping."`
	BufferSize  int       `yaml:"buffer_size" json:"buffer_size" min:"1" default:"10000" doc:"Persistent chains in the replay buffer. The paper: 10000."`
	Restart     float64   `yaml:"restart" json:"restart" min:"0" max:"1" default:"0.05" doc:"Probability that a chain starts anew from uniform noise. The paper: 0.05."`
	Conditional bool      `yaml:"class_conditional" json:"class_conditional" default:"false" doc:"Draw the samples of p(x) class by class: a random class each, gradient of log p(x,y), a slice of the buffer a class."`
}

// Guard holds the limits that tell a diverged run from a healthy one.
type Guard struct {
	MaxLoss  float64 `yaml:"max_loss" min:"0" default:"1e5" doc:"Largest |loss| before the stage stops with an error; 0: no limit. The authors: 1e8."`
	MaxLogit float64 `yaml:"max_log_density" min:"0" default:"1e4" doc:"Largest |log-sum-exp| of a row before the stage stops with an error; 0: no limit."`
	GapAlarm float64 `yaml:"gap_alarm" min:"0" default:"3" doc:"Gap f(data) - f(samples) above which, for gap_steps steps in a row, the log warns that the chains have stopped to follow the model."`
	GapSteps int     `yaml:"gap_steps" min:"1" default:"200" doc:"Steps in a row above gap_alarm before the warning."`
}

// Default is the configuration of a run where nothing is said.
func Default() Config {
	return Config{
		Objective: "jem", Epochs: 20, BatchSize: 64, DataNoise: 0.1, EvalEvery: 250, Shards: 2,
		Loss: Loss{PX: 1, PYgivenX: 1, EnergyReg: 0.1},
		Optimizer: Optimizer{Name: "adam", LR: 2e-3, Beta2: 0.999, Epsilon: 1e-8, Momentum: 0.9, Warmup: 200,
			DecayAt: []float64{0.75}, DecayRate: 0.3, ClipNorm: 1},
		Sampler: Sampler{Steps: 20, StepSize: 1, NoiseStd: 0.01, GradClip: 0.1, Clamp: true, Range: []float64{-1, 1},
			BufferSize: 10000, Restart: 0.05},
		Guard: Guard{MaxLoss: 1e5, MaxLogit: 1e4, GapAlarm: 3, GapSteps: 200},
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
	if r := c.Sampler.Range; len(r) != 2 || !(r[0] < r[1]) {
		add("sampler.range", "want two numbers, the lower one first")
	}
	if !c.generative() && !c.Supervised() {
		add("loss", "the weights of all terms of the objective are 0: nothing would be trained")
	}
	if c.PerClass > 0 && c.OneBatch && c.generative() {
		add("labels_per_class", "needs one_batch: false, since p(x) sees all rows and p(y|x) only those with a label")
	}
	if c.sliced() && classes > 0 && c.Sampler.BufferSize%classes != 0 {
		add("sampler.buffer_size", "class-conditional chains need a multiple of the number of classes")
	}
	return ps
}

// generative says whether chains are run.
func (c Config) generative() bool {
	return c.Objective == "jem" && (c.Loss.PX > 0 || c.Loss.PXY > 0)
}

// Supervised says whether labels are used: a run without any is then an error.
func (c Config) Supervised() bool {
	return c.Loss.PYgivenX > 0 || c.Objective == "jem" && c.Loss.PXY > 0
}

// sliced says whether the buffer is cut into classes.
func (c Config) sliced() bool { return c.Sampler.Conditional || c.Loss.PXY > 0 }

// TotalSteps is the number of optimiser steps over n training rows.
func (c Config) TotalSteps(n int) int {
	if c.Steps > 0 {
		return c.Steps
	}
	return int(math.Ceil(c.Epochs * float64(n) / float64(c.BatchSize)))
}

// LearningRate is the rate of a step, counted from 0, of total.
func (o Optimizer) LearningRate(step, total int) float64 {
	lr := o.LR
	for _, share := range o.DecayAt {
		if float64(step) >= share*float64(total) {
			lr *= o.DecayRate
		}
	}
	if step+1 < o.Warmup {
		lr *= float64(step+1) / float64(o.Warmup)
	}
	return lr
}

// Solver is the rule of the updates without learning rate.
func (o Optimizer) Solver() Solver {
	return Solver{Name: o.Name, Beta1: o.Beta1, Beta2: o.Beta2, Epsilon: o.Epsilon, Momentum: o.Momentum, WeightDecay: o.WeightDecay}
}
